//! `google.protobuf.Struct` as JSON text, for servers that answer in a form that was not asked for.

use prost_types::{Struct, Value, value::Kind};
use serde_json::{Map, Number, Value as Json};

/// Whole numbers up to here are exact in a double, and written without a point.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The object as text.
pub fn struct_text(object: &Struct) -> String {
    object_json(object).to_string()
}

/// The value as text.
pub fn value_text(value: &Value) -> String {
    value_json(value).to_string()
}

fn object_json(object: &Struct) -> Json {
    let members = object.fields.iter();
    Json::Object(
        members.map(|(key, value)| (key.clone(), value_json(value))).collect::<Map<_, _>>(),
    )
}

fn value_json(value: &Value) -> Json {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::NumberValue(number)) => number_json(*number),
        Some(Kind::StringValue(text)) => Json::String(text.clone()),
        Some(Kind::BoolValue(flag)) => Json::Bool(*flag),
        Some(Kind::StructValue(object)) => object_json(object),
        Some(Kind::ListValue(list)) => Json::Array(list.values.iter().map(value_json).collect()),
    }
}

fn number_json(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
        return Json::from(number as i64);
    }
    Number::from_f64(number).map_or(Json::Null, Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_reads_as_the_text_it_came_from() {
        let kind = |kind| Value { kind: Some(kind) };
        let list = prost_types::ListValue {
            values: vec![
                kind(Kind::NumberValue(42.0)),
                kind(Kind::NumberValue(0.5)),
                kind(Kind::NumberValue(1e300)),
                kind(Kind::BoolValue(true)),
                Value { kind: None },
            ],
        };
        let inner =
            Struct { fields: [("s".to_owned(), kind(Kind::StringValue("\"".to_owned())))].into() };
        let object = Struct {
            fields: [
                ("l".to_owned(), kind(Kind::ListValue(list))),
                ("o".to_owned(), kind(Kind::StructValue(inner))),
            ]
            .into(),
        };
        let text = r#"{"l":[42,0.5,1e+300,true,null],"o":{"s":"\""}}"#;
        assert_eq!(struct_text(&object), text);
        assert_eq!(value_text(&kind(Kind::StructValue(object))), text);
    }
}
