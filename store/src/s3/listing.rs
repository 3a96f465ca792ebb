//! Pages of a listing: what a store must say before they are believed.
//!
//! Invariant: a listing is whole, has each key once, and has nothing outside of the prefix that was asked for, whatever the
//! store does. Prune and sweep act on it: an object of someone else's must never come into their hands.

use std::collections::HashSet;

use aws_sdk_s3::types::EncodingType;

/// More pages than any bucket of backups has; a store that never ends a listing must not keep us for ever.
const PAGES_MAX: usize = 100_000;

/// Where a listing goes on, and where it has been.
#[derive(Debug, Default)]
pub(super) struct Pages<M> {
    seen: HashSet<M>,
}

impl<M: Clone + Eq + std::hash::Hash> Pages<M> {
    /// The mark of the next page; `None` if the listing does not say it, has been there, or never ends.
    pub(super) fn next(&mut self, mark: Option<M>) -> Option<M> {
        let mark = mark?;
        (self.seen.len() < PAGES_MAX && self.seen.insert(mark.clone())).then_some(mark)
    }
}

/// A key as it is, or `None` if it is not below `prefix`: some stores take the prefix for a suggestion.
pub(super) fn key_below(prefix: &str, key: &str, encoding: Option<&EncodingType>) -> Option<String> {
    let key = plain(key, encoding);
    key.starts_with(prefix).then_some(key)
}

/// Text as it was before the store encoded it, if it says that it did: one that ignores the wish sends it as it is.
pub(super) fn plain(text: &str, encoding: Option<&EncodingType>) -> String {
    match encoding {
        Some(EncodingType::Url) => decoded(text),
        _ => text.to_owned(),
    }
}

/// Keys come percent-encoded, because XML cannot carry every character that a key can.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%').then(|| tail.get(..2)).flatten().and_then(|two| std::str::from_utf8(two).ok());
        match escaped.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded_as_stores_encode_them() {
        assert_eq!(decoded("a/b%2Fc%0Ad%2bx+y%zz%"), "a/b/c\nd+x y%zz%");
    }

    #[test]
    fn b51_a_store_that_does_not_encode_keys_is_taken_at_its_word() {
        assert_eq!(plain("a%2Fb+c", None), "a%2Fb+c");
        assert_eq!(plain("a%2Fb+c", Some(&EncodingType::Url)), "a/b c");
    }

    #[test]
    fn nothing_outside_of_the_prefix_is_ever_seen() {
        assert_eq!(key_below("mine/", "mine/x", None).as_deref(), Some("mine/x"));
        assert_eq!(key_below("mine/", "mine%2Fx", Some(&EncodingType::Url)).as_deref(), Some("mine/x"));
        assert_eq!(key_below("mine/", "mines/x", None), None);
        assert_eq!(key_below("mine/", "mine%2Fx", None), None);
    }

    #[test]
    fn a_listing_that_goes_in_a_circle_ends() {
        let mut pages = Pages::default();
        assert_eq!(pages.next(Some("a")), Some("a"));
        assert_eq!(pages.next(Some("b")), Some("b"));
        assert_eq!(pages.next(Some("a")), None);
        assert_eq!(pages.next(None), None);
    }

    #[test]
    fn a_listing_that_never_ends_is_ended() {
        let mut pages = Pages::default();
        assert_eq!((0..).take_while(|mark| pages.next(Some(*mark)).is_some()).count(), PAGES_MAX);
    }
}
