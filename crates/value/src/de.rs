//! Deserialization of rows by `serde`.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::{FromValue, RowError, Text, Value};

/// A row: read as a struct or map by the names of its columns, as a tuple or list by their
/// positions, and as anything else if it has a single column.
pub(crate) struct RowDeserializer<'de> {
    pub(crate) columns: &'de [Text],
    pub(crate) values: &'de [Value],
}

/// A value of a row, or one nested in such a value.
#[derive(Clone, Copy)]
struct ValueDeserializer<'de>(&'de Value);

impl<'de> RowDeserializer<'de> {
    /// Reads the only column.
    fn single<T>(
        &self,
        read: impl FnOnce(ValueDeserializer<'de>) -> Result<T, RowError>,
    ) -> Result<T, RowError> {
        match (self.columns, self.values) {
            ([column], [value]) => {
                read(ValueDeserializer(value)).map_err(|error| error.in_column(column))
            }
            _ => Err(RowError::bad_width(self.columns.len(), 1)),
        }
    }
}

macro_rules! single {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
            self.single(|value| value.$method(visitor))
        }
    )*};
}

impl<'de> Deserializer<'de> for RowDeserializer<'de> {
    type Error = RowError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_map(Columns::new(self.columns, self.values))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_seq(Columns::new(self.columns, self.values))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        if len != self.columns.len() {
            return Err(RowError::bad_width(self.columns.len(), len));
        }
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.single(|value| value.deserialize_enum(name, variants, visitor))
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_unit()
    }

    single! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option
        deserialize_identifier
    }
}

/// The columns of a row that are not read yet.
struct Columns<'de> {
    rest: std::iter::Zip<std::slice::Iter<'de, Text>, std::slice::Iter<'de, Value>>,
    /// The column whose name is read and whose value is not.
    current: Option<(&'de Text, &'de Value)>,
}

impl<'de> Columns<'de> {
    fn new(columns: &'de [Text], values: &'de [Value]) -> Self {
        Self {
            rest: columns.iter().zip(values),
            current: None,
        }
    }
}

impl<'de> MapAccess<'de> for Columns<'de> {
    type Error = RowError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, RowError> {
        self.current = self.rest.next();
        let name = self.current.map(|(column, _)| column.as_str());
        name.map(|name| seed.deserialize(BorrowedStrDeserializer::new(name)))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, RowError> {
        let current = self.current.take();
        let (column, value) = current.expect("a value is read behind its name");
        let read = seed.deserialize(ValueDeserializer(value));
        read.map_err(|error| error.in_column(column))
    }
}

impl<'de> SeqAccess<'de> for Columns<'de> {
    type Error = RowError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, RowError> {
        let Some((column, value)) = self.rest.next() else {
            return Ok(None);
        };
        let read = seed.deserialize(ValueDeserializer(value));
        read.map(Some).map_err(|error| error.in_column(column))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// Numbers and booleans, which may be stored as another type than they are read as.
macro_rules! number {
    ($($method:ident $type:ty => $visit:ident),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
            match <$type>::from_value(self.0) {
                Some(number) => visitor.$visit(number),
                None => Err(RowError::misfit(self.0.type_of(), stringify!($type))),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for ValueDeserializer<'de> {
    type Error = RowError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        match self.0 {
            Value::Null | Value::Ignore => visitor.visit_unit(),
            Value::Bool(bool) => visitor.visit_bool(*bool),
            Value::Int(int) => visitor.visit_i64(*int),
            Value::Float(float) => visitor.visit_f64(*float),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Symbol(text) => visitor.visit_borrowed_str(text),
            Value::Decimal(decimal) => visitor.visit_borrowed_str(decimal.as_str()),
            Value::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Value::Time(_) | Value::Ip(_) | Value::Net(_) | Value::Uuid(_) => {
                visitor.visit_str(&self.0.to_text())
            }
            Value::Array(values) => visitor.visit_seq(Elements(values.iter())),
            Value::Object(object) => visitor.visit_map(Members {
                rest: object.iter(),
                current: None,
            }),
        }
    }

    number! {
        deserialize_bool bool => visit_bool, deserialize_i8 i8 => visit_i8,
        deserialize_i16 i16 => visit_i16, deserialize_i32 i32 => visit_i32,
        deserialize_i64 i64 => visit_i64, deserialize_i128 i128 => visit_i128,
        deserialize_u8 u8 => visit_u8, deserialize_u16 u16 => visit_u16,
        deserialize_u32 u32 => visit_u32, deserialize_u64 u64 => visit_u64,
        deserialize_u128 u128 => visit_u128, deserialize_f32 f32 => visit_f32,
        deserialize_f64 f64 => visit_f64,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        visitor.visit_newtype_struct(self)
    }

    /// A text is a unit variant, and an object with one member is a variant with content.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowError> {
        match self.0 {
            Value::Object(object) if object.len() == 1 => {
                let (name, value) = object.iter().next().expect("it has one member");
                visitor.visit_enum(Variant { name, value })
            }
            value => match value.as_str() {
                Some(name) => visitor.visit_enum(name.into_deserializer()),
                None => Err(RowError::misfit(value.type_of(), "variant of an enum")),
            },
        }
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// The elements of an array that were not read yet.
struct Elements<'de>(std::slice::Iter<'de, Value>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = RowError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, RowError> {
        let next = self.0.next();
        next.map(|value| seed.deserialize(ValueDeserializer(value)))
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The members of an object that were not read yet.
struct Members<'de, I> {
    rest: I,
    /// The value of the member whose name is read.
    current: Option<&'de Value>,
}

impl<'de, I: Iterator<Item = (&'de Text, &'de Value)>> MapAccess<'de> for Members<'de, I> {
    type Error = RowError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, RowError> {
        let Some((name, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.current = Some(value);
        seed.deserialize(BorrowedStrDeserializer::new(name))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, RowError> {
        let value = self.current.take();
        let value = value.expect("a value is read behind its name");
        seed.deserialize(ValueDeserializer(value))
    }
}

/// A variant with content.
struct Variant<'de> {
    name: &'de str,
    value: &'de Value,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = RowError;
    type Variant = ValueDeserializer<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), RowError> {
        let name = seed.deserialize(BorrowedStrDeserializer::new(self.name))?;
        Ok((name, ValueDeserializer(self.value)))
    }
}

impl<'de> VariantAccess<'de> for ValueDeserializer<'de> {
    type Error = RowError;

    fn unit_variant(self) -> Result<(), RowError> {
        match self.0 {
            Value::Null => Ok(()),
            _ => Err(RowError::invalid_type(
                Unexpected::NewtypeVariant,
                &"variant without content",
            )),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, RowError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, RowError> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use serde::Deserialize;

    use crate::{Object, RowSet, RowSetBuilder, Value};

    fn one<const N: usize>(columns: [&'static str; N], values: [Value; N]) -> RowSet {
        let mut rows = RowSetBuilder::new(columns);
        rows.push(values);
        rows.build()
    }

    #[track_caller]
    fn check<T: serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
        rows: &RowSet,
        expected: T,
    ) {
        assert_eq!(rows.deserialize::<T>().unwrap(), [expected]);
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Id(u32);

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Mood {
        Good,
        Rated(i8),
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Host {
        id: Id,
        ip: IpAddr,
        mood: Mood,
        price: f64,
        note: Option<String>,
        tags: Vec<String>,
        #[serde(default)]
        missing: bool,
    }

    fn host() -> RowSet {
        one(
            ["ip", "id", "mood", "note", "tags", "price", "unused"],
            [
                Value::Ip("192.0.2.1".parse().unwrap()),
                Value::Int(7),
                Value::from("good"),
                Value::Null,
                Value::from(vec![Value::from("a")]),
                Value::Decimal("1.50".parse().unwrap()),
                Value::Null,
            ],
        )
    }

    #[test]
    fn structs_are_read_by_name() {
        let expected = Host {
            id: Id(7),
            ip: "192.0.2.1".parse().unwrap(),
            mood: Mood::Good,
            price: 1.5,
            note: None,
            tags: vec!["a".to_owned()],
            missing: false,
        };
        check(&host(), expected);
        let object = Object::from_iter([("rated".into(), Value::Int(3))]);
        check(&one(["mood"], [Value::from(object)]), Mood::Rated(3));
    }

    #[test]
    fn tuples_are_read_by_place_and_one_column_as_itself() {
        let rows = one(["a", "b"], [Value::Int(1), Value::from("x")]);
        check(&rows, (1_u8, "x".to_owned()));
        check(&rows, (Id(1), Some("x".to_owned())));
        let map = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
        check(&one(["a", "b"], [Value::Int(1), Value::Int(2)]), map);
        let rows = one(["a"], [Value::Int(1)]);
        check(&rows, 1_i64);
        check(&rows, Id(1));
        check(&rows, Some(true));
        check(&rows, (1_i16,));
        check(&rows, vec![1_u64]);
        check(&one(["a"], [Value::Null]), None::<i64>);
        let uuid = Value::Uuid(uuid::Uuid::nil());
        check(&one(["a"], [uuid]), uuid::Uuid::nil().to_string());
        let large = Value::Decimal("18446744073709551615".parse().unwrap());
        check(&one(["a"], [large]), u64::MAX);
    }

    #[test]
    fn errors_name_the_place_and_not_the_value() {
        #[track_caller]
        fn check<T: serde::de::DeserializeOwned + std::fmt::Debug>(rows: &RowSet, expected: &str) {
            let error = rows.deserialize::<T>().unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let rows = one(["a", "b"], [Value::from("secret"), Value::Int(300)]);
        check::<(i64, i64)>(&rows, "row 0, column `a`: this text is not a valid i64");
        check::<(String, u8)>(&rows, "row 0, column `b`: this int is not a valid u8");
        check::<(String, String)>(&rows, "row 0, column `b`: this int is not a string");
        check::<(String, Option<Mood>)>(
            &rows,
            "row 0, column `b`: this int is not a valid variant of an enum",
        );
        check::<(Mood, u16)>(
            &rows,
            "row 0, column `a`: this text is not one of good, rated",
        );
        check::<(IpAddr, u16)>(&rows, "row 0, column `a`: invalid IP address syntax");
        check::<(String,)>(&rows, "row 0: 2 columns cannot be read as 1 values");
        check::<String>(&rows, "row 0: 2 columns cannot be read as 1 values");
        check::<Host>(&rows, "row 0: missing field `id`");
        check::<Vec<i64>>(
            &one(["a"], [Value::Null]),
            "row 0, column `a`: this null is not a valid i64",
        );
    }
}
