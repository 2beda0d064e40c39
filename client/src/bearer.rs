//! Bearer tokens of Microsoft Entra, or of whoever else a service believes: where they come from.
//!
//! Getting a token is another library's work; this one asks for it and sends it, over HTTPS only,
//! because whoever reads a token may use it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// A token on its way, or why there is none.
pub type PendingToken<'a> = Pin<
    Box<dyn Future<Output = Result<String, Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>,
>;

/// Where tokens come from.
///
/// ```
/// use tabulith_client::bearer::{Bearer, PendingToken, Tokens};
/// use tabulith_client::{Connection, Credential};
///
/// struct OfTheMachine;
///
/// impl Tokens for OfTheMachine {
///     fn token(&self) -> PendingToken<'_> {
///         Box::pin(async { Ok(std::env::var("TOKEN")?) })
///     }
/// }
///
/// let credential = Credential::Bearer(Bearer::new(OfTheMachine));
/// let shop = Connection::new("shop", "https://shop.table.core.windows.net", credential)?;
/// # Ok::<(), tabulith_client::connection::NoConnection>(())
/// ```
pub trait Tokens: Send + Sync {
    /// A token that is good now, without the word `Bearer`. It is asked for before every attempt of
    /// every call, so a source keeps one until shortly before its end.
    fn token(&self) -> PendingToken<'_>;
}

/// A source of tokens. Clones share it, and only these are equal.
#[derive(Clone)]
pub struct Bearer(Arc<dyn Tokens>);

impl Bearer {
    /// Tokens of this source.
    pub fn new(source: impl Tokens + 'static) -> Bearer {
        Bearer(Arc::new(source))
    }

    /// Always this token, which ends some day: for short work.
    pub fn fixed(token: impl Into<String>) -> Bearer {
        Bearer::new(Fixed(token.into()))
    }

    /// A token that is good now.
    pub(crate) fn token(&self) -> PendingToken<'_> {
        self.0.token()
    }
}

impl PartialEq for Bearer {
    fn eq(&self, other: &Bearer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Bearer {}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

struct Fixed(String);

impl Tokens for Fixed {
    fn token(&self) -> PendingToken<'_> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}
