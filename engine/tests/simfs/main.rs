//! The simulated disk: like the real one as long as the power stays, and every crash test's ground
//! when it goes.

mod like_os;
mod power_loss;
mod teeth;
