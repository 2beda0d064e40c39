//! Permission letters of shared access signatures and stored policies.

use std::fmt;

/// A set of letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Letters(u32);

impl Letters {
    /// Reads letters in any order; nothing where a character is none of `allowed`.
    pub fn parse(text: &str, allowed: &str) -> Option<Letters> {
        text.chars().try_fold(Letters::default(), |letters, letter| {
            let bit = bit(letter).filter(|_| allowed.contains(letter))?;
            Some(Letters(letters.0 | bit))
        })
    }

    /// Whether all of `letters` are among them.
    pub fn have(self, letters: &str) -> bool {
        letters.chars().all(|letter| bit(letter).is_some_and(|bit| self.0 & bit != 0))
    }

    /// Whether one of `letters` is among them.
    pub fn have_any(self, letters: &str) -> bool {
        letters.chars().any(|letter| bit(letter).is_some_and(|bit| self.0 & bit != 0))
    }
}

fn bit(letter: char) -> Option<u32> {
    letter.is_ascii_lowercase().then(|| 1 << (u32::from(letter) - u32::from('a')))
}

/// Letters of permissions on a table's entities, in the service's order: query, add, update,
/// delete.
pub const ENTITY_LETTERS: &str = "raud";

/// In the service's order.
impl fmt::Display for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = ('a'..='z').filter(|letter| !ENTITY_LETTERS.contains(*letter));
        for letter in ENTITY_LETTERS.chars().chain(others) {
            if self.have(letter.encode_utf8(&mut [0; 4])) {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters() {
        let letters = Letters::parse("dar", ENTITY_LETTERS).expect("letters");
        assert_eq!(letters.to_string(), "rad");
        assert!(letters.have("ad") && !letters.have("au") && letters.have_any("au"));
        assert!(!letters.have_any("") && letters.have(""));
        for text in ["x", "R", "r ", "é", "rw"] {
            assert_eq!(Letters::parse(text, ENTITY_LETTERS), None, "{text}");
        }
    }
}
