//! A description of the services in OpenAPI 3.1, made from their descriptors and the comments of their contract.

use std::collections::{BTreeMap, HashMap};

use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    ServiceDescriptor,
};
use serde_json::{Map, Value, json};

use crate::call::{has_no_side_effects, path};

/// What the descriptors do not say.
pub struct Title<'t> {
    pub title: &'t str,
    pub version: &'t str,
    pub description: &'t str,
}

/// Describes each unary method of a package. Streams have envelopes, which OpenAPI does not know.
pub fn openapi(pool: &DescriptorPool, package: &str, about: &Title<'_>) -> Value {
    let mut document = Document { comments: comments(pool), schemas: BTreeMap::new() };
    let services: Vec<_> = pool.services().filter(|it| it.package_name() == package).collect();
    let methods = services.iter().flat_map(ServiceDescriptor::methods);
    let served = methods.filter(|it| !it.is_client_streaming() && !it.is_server_streaming());
    let paths: Map<_, _> = served.map(|it| (path(&it), document.operations(&it))).collect();
    let tags: Vec<_> = services
        .iter()
        .map(|it| {
            let about = document.comment(it.parent_file().name(), it.path());
            json!({"name": it.name(), "description": about})
        })
        .collect();
    document.schemas.insert("connect.Error".into(), error_schema());
    let Title { title, version, description } = about;
    json!({
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": description},
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": document.schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        // A server without identities asks for none.
        "security": [{}, {"bearer": []}],
    })
}

/// Comments of the contract, by file and path.
type Comments = HashMap<(String, Vec<i32>), String>;

fn comments(pool: &DescriptorPool) -> Comments {
    let mut comments = Comments::new();
    for file in pool.files() {
        let source = file.file_descriptor_proto().source_code_info.as_ref();
        for location in source.iter().flat_map(|it| &it.location) {
            if let Some(text) = &location.leading_comments {
                let lines: Vec<_> = text.lines().map(str::trim).collect();
                let key = (file.name().to_owned(), location.path.clone());
                comments.insert(key, lines.join("\n").trim().to_owned());
            }
        }
    }
    comments
}

struct Document {
    comments: Comments,
    /// Of the messages and enums that are reached, by their full names.
    schemas: BTreeMap<String, Value>,
}

impl Document {
    fn comment(&self, file: &str, path: &[i32]) -> &str {
        self.comments.get(&(file.to_owned(), path.to_vec())).map_or("", String::as_str)
    }

    /// What a path takes.
    fn operations(&mut self, method: &MethodDescriptor) -> Value {
        let request = self.message(&method.input());
        let mut post = self.operation(method, method.name());
        post["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": request}}});
        let mut operations = json!({"post": post});
        if has_no_side_effects(method) {
            let mut get = self.operation(method, &format!("{}ByGet", method.name()));
            let parameter = |name: &str, schema: Value| json!({"name": name, "in": "query", "required": true, "schema": schema});
            let about = format!("{} as JSON.", method.input().name());
            get["parameters"] = json!([
                parameter("message", json!({"type": "string", "description": about})),
                parameter("encoding", json!({"type": "string", "const": "json"})),
                parameter("connect", json!({"type": "string", "const": "v1"})),
            ]);
            operations["get"] = get;
        }
        operations
    }

    fn operation(&mut self, method: &MethodDescriptor, id: &str) -> Value {
        let service = method.parent_service();
        let description = self.comment(service.parent_file().name(), method.path()).to_owned();
        let line = description.replace('\n', " ");
        let summary = line.split_once(". ").map_or(&*line, |(first, _)| first);
        let answer = self.message(&method.output());
        let error = json!({"$ref": "#/components/schemas/connect.Error"});
        let json = |schema: Value| json!({"application/json": {"schema": schema}});
        json!({
            "tags": [service.name()],
            "operationId": id,
            "summary": summary.trim_end_matches('.'),
            "description": description,
            "responses": {
                "200": {"description": "The answer.", "content": json(answer)},
                "default": {"description": "An error.", "content": json(error)},
            },
        })
    }

    /// The schema of a message, or a reference to it.
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        if let Some(known) = well_known(message.full_name()) {
            return known;
        }
        let name = message.full_name();
        if !self.schemas.contains_key(name) {
            // Before its fields, which may lead back to it.
            self.schemas.insert(name.to_owned(), Value::Null);
            let fields: Vec<_> = message.fields().collect();
            let properties: Map<_, _> =
                fields.iter().map(|it| (it.json_name().to_owned(), self.field(it))).collect();
            let file = message.parent_file();
            let about = |path| self.comment(file.name(), path);
            let required = fields.iter().filter(|it| about(it.path()).starts_with("Required."));
            let required: Vec<_> = required.map(|it| it.json_name().to_owned()).collect();
            let description = about(message.path());
            let mut schema =
                json!({"type": "object", "description": description, "properties": properties});
            if !required.is_empty() {
                schema["required"] = required.into();
            }
            self.schemas.insert(name.to_owned(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let mut schema = if field.is_map() {
            let values = match field.kind() {
                Kind::Message(entry) => self.kind(&entry.map_entry_value_field().kind()),
                other => self.kind(&other),
            };
            json!({"type": "object", "additionalProperties": values})
        } else if field.is_list() {
            json!({"type": "array", "items": self.kind(&field.kind())})
        } else {
            self.kind(&field.kind())
        };
        let about = self.comment(field.parent_file().name(), field.path());
        if !about.is_empty() {
            schema["description"] = about.into();
        }
        schema
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Double | Kind::Float => json!({"type": "number"}),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                json!({"type": "integer", "format": "int32"})
            }
            Kind::Uint32 | Kind::Fixed32 => json!({"type": "integer", "minimum": 0}),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                json!({"type": "string", "format": "int64"})
            }
            Kind::Uint64 | Kind::Fixed64 => json!({"type": "string", "format": "uint64"}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "format": "byte"}),
            Kind::Message(message) => self.message(message),
            Kind::Enum(names) => self.names(names),
        }
    }

    fn names(&mut self, names: &EnumDescriptor) -> Value {
        let full = names.full_name();
        if full == "google.protobuf.NullValue" {
            return json!({"type": "null"});
        }
        let file = names.parent_file();
        let all: Vec<_> = names.values().map(|it| it.name().to_owned()).collect();
        let about = self.comment(file.name(), names.path()).to_owned();
        let schema = json!({"type": "string", "description": about, "enum": all});
        self.schemas.insert(full.to_owned(), schema);
        json!({"$ref": format!("#/components/schemas/{full}")})
    }
}

/// The schema of a type that JSON writes in a way of its own.
fn well_known(name: &str) -> Option<Value> {
    Some(match name {
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.Duration" => json!({"type": "string", "examples": ["3600s"]}),
        "google.protobuf.FieldMask" => {
            json!({"type": "string", "examples": ["displayName,labels"]})
        }
        "google.protobuf.Struct" => json!({"type": "object", "additionalProperties": true}),
        "google.protobuf.ListValue" => json!({"type": "array", "items": {}}),
        "google.protobuf.Value" => json!({"description": "Any JSON."}),
        "google.protobuf.Empty" => json!({"type": "object"}),
        _ => return None,
    })
}

fn error_schema() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "description": "An error of the Connect protocol.",
        "required": ["code"],
        "properties": {
            "code": text,
            "message": text,
            "details": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "value"],
                    "properties": {
                        "type": text,
                        "value": {"type": "string", "format": "byte"},
                        "debug": {"type": "object", "additionalProperties": true},
                    },
                },
            },
        },
    })
}
