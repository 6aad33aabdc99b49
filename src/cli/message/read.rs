//! Messages of the contract from JSON, the reverse of how they are printed.

use prost::Name;
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor};

use super::descriptor_of;
use crate::domain::json::{Json, JsonType};

/// Reads one JSON object. An error names the member that is wrong.
pub fn from_json<M: Name + Default>(json: &Json) -> Result<M, String> {
    let descriptor = descriptor_of::<M>().ok_or("the message is not of the contract")?;
    let text = as_protobuf(&descriptor, json)?;
    let mut reader = serde_json::Deserializer::from_str(text.as_str());
    let message = DynamicMessage::deserialize(descriptor, &mut reader);
    let message = message.map_err(|error| error.to_string())?;
    message.transcode_to().map_err(|error| error.to_string())
}

/// The object as protobuf's own JSON: what stands under a plain name becomes the text of its `_json` field.
fn as_protobuf(descriptor: &MessageDescriptor, json: &Json) -> Result<Json, String> {
    if json.json_type() != JsonType::Object {
        return Err(format!("expected a JSON object, found {}", json.json_type()));
    }
    let mut members = Vec::new();
    for (name, value) in json.members() {
        // grpcurl writes `eventId`.
        let field = descriptor.get_field_by_json_name(&name);
        let name = field.map_or(name, |field| field.name().to_owned());
        let text_field = format!("{name}_json");
        if descriptor.get_field_by_name(&text_field).is_some() {
            members.push((text_field, Json::string(value.as_str())));
            continue;
        }
        let Some(field) = descriptor.get_field_by_name(&name) else {
            let known =
                descriptor.fields().map(|field| field.name().trim_end_matches("_json").to_owned());
            let mut known: Vec<_> = known.collect();
            known.dedup();
            return Err(format!("unknown member `{name}`. Known: {}", known.join(", ")));
        };
        let value = match field.kind() {
            Kind::Message(inner)
                if !field.is_map() && inner.package_name() != "google.protobuf" =>
            {
                let named = |error| format!("{name}: {error}");
                if field.is_list() {
                    let items = value.items();
                    let items = items.iter().map(|item| as_protobuf(&inner, item).map_err(named));
                    Json::of_items(&items.collect::<Result<Vec<_>, _>>()?)
                } else {
                    as_protobuf(&inner, &value).map_err(named)?
                }
            }
            _ => value,
        };
        members.push((name, value));
    }
    Ok(Json::of_members(&members))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::message::AsJson,
        proto::v1::{Event, StateDelta, event::BodyForm, state_delta::SetForm},
    };

    fn read(text: &str) -> Result<Event, String> {
        from_json(&Json::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let event = Event {
            event_id: "e".to_owned(),
            sequence: 7,
            author: "a".to_owned(),
            event_time: Some(prost_types::Timestamp { seconds: 1, nanos: 5 }),
            state_delta: Some(StateDelta {
                set_form: Some(SetForm::SetJson("{\"a\":1.00}".to_owned())),
                remove: vec!["b".to_owned()],
                operations: Vec::new(),
            }),
            body_form: Some(BodyForm::BodyJson("{\"n\":12345678901234567890}".to_owned())),
            ..Default::default()
        };
        let text = serde_json::to_string(&AsJson(event.clone())).unwrap();
        assert_eq!(read(&text), Ok(event));
    }

    #[test]
    fn what_grpcurl_prints_is_read() {
        let event = read(
            r#"{"eventId":"e","sequence":"7","eventTime":"2026-01-01T00:00:00Z","stateDelta":{"setJson":"{\"a\":1.00}"},"bodyJson":"{}"}"#,
        );
        let event = event.unwrap();
        assert_eq!((&*event.event_id, event.sequence), ("e", 7));
        assert_eq!(event.body_form, Some(BodyForm::BodyJson("{}".to_owned())));
        let set = event.state_delta.unwrap().set_form;
        assert_eq!(set, Some(SetForm::SetJson("{\"a\":1.00}".to_owned())));
    }

    #[test]
    fn operations_are_written_as_in_the_contract() {
        let event = read(
            r#"{"state_delta":{"operations":[{"key":"n","increment":{"by":2}},{"key":"l","list_append":{"values":[1.0]}}]}}"#,
        );
        let operations = event.unwrap().state_delta.unwrap().operations;
        let shown = format!("{operations:?}");
        assert!(shown.contains("By(2)") && shown.contains("ValuesJson(\"[1.0]\")"), "{shown}");
    }

    #[test]
    fn a_wrong_member_is_named() {
        assert!(
            read(r#"{"autor":"a"}"#)
                .unwrap_err()
                .starts_with("unknown member `autor`. Known: event_id")
        );
        let nested = read(r#"{"state_delta":{"add":{}}}"#).unwrap_err();
        assert!(nested.starts_with("state_delta: unknown member `add`"), "{nested}");
        assert!(read("[]").unwrap_err().contains("expected a JSON object"));
        assert!(read(r#"{"author":1}"#).is_err());
    }
}
