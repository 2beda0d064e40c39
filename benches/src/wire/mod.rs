//! Servers of tables under load by wrk, side by side with Azurite and with a bare HTTP server.

pub mod entities;
pub mod ask;
pub mod servers;
pub mod load;
pub mod wrk;
pub mod table;
