//! Limits of rate, as the service has them: off unless they are asked for.

pub mod bucket;
pub mod gate;
