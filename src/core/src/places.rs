//! JSON read in one pass for what stands at named places; the rest is skipped without being kept.
//!
//! A reader says for each place which keys and items within it are places too, and takes what stands there. What has
//! another type than expected is passed over: providers add and change fields as they like. A text that is cut short
//! or no JSON is told by the result, and what was read before the fault was taken all the same.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// One reader: its places, and what it takes.
pub trait Places<'a> {
    /// Where something of interest may stand.
    type Place: Copy;

    /// The place of a key within an object, if it has one.
    fn key(&self, place: Self::Place, key: &str) -> Option<Self::Place>;

    /// The place of the items of an array, if they have one.
    fn item(&self, _place: Self::Place) -> Option<Self::Place> {
        None
    }

    /// Told of a text.
    fn text(&mut self, _place: Self::Place, _text: Cow<'a, str>) {}

    /// Told of a whole number that is not negative.
    fn number(&mut self, _place: Self::Place, _number: u64) {}

    /// Told of true or false.
    fn flag(&mut self, _place: Self::Place, _flag: bool) {}

    /// Told that an object begins here.
    fn open(&mut self, _place: Self::Place) {}

    /// Told that it is over.
    fn close(&mut self, _place: Self::Place) {}
}

/// Reads `json` from `place` on; whether all of it is one well-formed value.
pub fn read<'a, P: Places<'a>>(json: &'a [u8], place: P::Place, reader: &mut P) -> bool {
    let mut source = serde_json::Deserializer::from_slice(json);
    Walk { place, reader }.deserialize(&mut source).is_ok() && source.end().is_ok()
}

struct Walk<'r, P, Q> {
    place: Q,
    reader: &'r mut P,
}

impl<'a, P: Places<'a>> DeserializeSeed<'a> for Walk<'_, P, P::Place> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'a, P: Places<'a>> Visitor<'a> for Walk<'_, P, P::Place> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        self.reader.open(self.place);
        while let Some(found) = map.next_key_seed(Key { place: self.place, reader: self.reader })? {
            match found {
                Some(place) => map.next_value_seed(Walk { place, reader: self.reader })?,
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        self.reader.close(self.place);
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut items: S) -> Result<(), S::Error> {
        match self.reader.item(self.place) {
            Some(place) => while items.next_element_seed(Walk { place, reader: self.reader })?.is_some() {},
            None => while items.next_element::<IgnoredAny>()?.is_some() {},
        }
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<(), E> {
        self.reader.text(self.place, Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.reader.text(self.place, Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.reader.number(self.place, number);
        Ok(())
    }

    fn visit_bool<E>(self, flag: bool) -> Result<(), E> {
        self.reader.flag(self.place, flag);
        Ok(())
    }

    fn visit_i64<E>(self, _number: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _number: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Looks a key up, without keeping it.
struct Key<'r, P, Q> {
    place: Q,
    reader: &'r P,
}

impl<'a, P: Places<'a>> DeserializeSeed<'a> for Key<'_, P, P::Place> {
    type Value = Option<P::Place>;

    fn deserialize<D: Deserializer<'a>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'a, P: Places<'a>> Visitor<'a> for Key<'_, P, P::Place> {
    type Value = Option<P::Place>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.reader.key(self.place, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes every text below `a`, however deep.
    #[derive(Default)]
    struct Texts(Vec<String>);

    impl<'a> Places<'a> for Texts {
        type Place = bool;

        fn key(&self, inside: bool, key: &str) -> Option<bool> {
            (inside || key == "a").then_some(true)
        }

        fn item(&self, inside: bool) -> Option<bool> {
            Some(inside)
        }

        fn text(&mut self, inside: bool, text: Cow<'a, str>) {
            if inside {
                self.0.push(text.into_owned());
            }
        }
    }

    #[test]
    fn what_stands_at_its_places_is_taken_and_the_rest_passed_over() {
        let json = r#"[{"b": {"a": "not here"}, "a": ["x", {"c": "y\n"}, 1, -1, 0.5, null, true]}, "z"]"#;
        let mut texts = Texts::default();
        assert!(read(json.as_bytes(), false, &mut texts));
        assert_eq!(texts.0, ["x", "y\n"]);
    }

    #[test]
    fn what_was_read_before_a_fault_is_taken_and_the_fault_told() {
        for json in [r#"{"a": "x", "b"#, r#"{"a": "x"} {"#, r#"{"a": "x"}}"#] {
            let mut texts = Texts::default();
            assert!(!read(json.as_bytes(), false, &mut texts), "{json}");
            assert_eq!(texts.0, ["x"], "{json}");
        }
    }
}
