//! Holds a JSON document against a JSON Schema: as much of it as the schemas of this project and of SARIF use, but for
//! `format`, `pattern` and `uniqueItems`. A whole validator takes minutes to compile.

use serde_json::Value;

/// What is wrong with a document, each with its path.
pub(crate) fn errors(schema: &Value, document: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check(schema, schema, document, "", &mut wrong);
    wrong
}

fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let Some(reference) = schema["$ref"].as_str() else { return schema };
    let path = reference.strip_prefix('#').expect("a reference within the schema");
    root.pointer(path).unwrap_or_else(|| panic!("{reference} is not there"))
}

fn is_of(kind: &str, document: &Value) -> bool {
    match kind {
        "object" => document.is_object(),
        "array" => document.is_array(),
        "string" => document.is_string(),
        "boolean" => document.is_boolean(),
        "null" => document.is_null(),
        "integer" => {
            document.is_i64() || document.is_u64() || document.as_f64().is_some_and(|it| it.fract() == 0.0)
        }
        "number" => document.is_number(),
        other => panic!("no such type: {other}"),
    }
}

fn check(root: &Value, schema: &Value, document: &Value, path: &str, wrong: &mut Vec<String>) {
    let schema = resolve(root, schema);
    if *schema == Value::Bool(false) {
        wrong.push(format!("{path} must not be there"));
    }
    let Some(schema) = schema.as_object() else { return };
    let mut say = |what: String| wrong.push(format!("{path}: {what}"));
    match schema.get("type") {
        Some(Value::String(kind)) if !is_of(kind, document) => say(format!("no {kind}: {document}")),
        Some(Value::Array(kinds))
            if !kinds.iter().any(|kind| is_of(kind.as_str().unwrap_or("null"), document)) =>
        {
            say(format!("none of {kinds:?}: {document}"));
        }
        _ => {}
    }
    if schema.get("const").is_some_and(|it| it != document) {
        say(format!("not {}: {document}", schema["const"]));
    }
    if schema.get("enum").and_then(Value::as_array).is_some_and(|all| !all.contains(document)) {
        say(format!("none of {}: {document}", schema["enum"]));
    }
    let number = document.as_f64();
    let below = |name: &str| schema.get(name).and_then(Value::as_f64).zip(number);
    if below("minimum").is_some_and(|(least, number)| number < least) {
        say(format!("too small: {document}"));
    }
    if below("maximum").is_some_and(|(most, number)| number > most) {
        say(format!("too large: {document}"));
    }
    for name in ["anyOf", "oneOf"] {
        let Some(all) = schema.get(name).and_then(Value::as_array) else { continue };
        let fitting = all.iter().filter(|one| {
            let mut inner = Vec::new();
            check(root, one, document, path, &mut inner);
            inner.is_empty()
        });
        if fitting.count() == 0 {
            wrong.push(format!("{path}: fits nothing of {name}"));
        }
    }
    if let Some(items) = document.as_array() {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            wrong.push(format!("{path}: fewer than {least} items"));
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(each) = schema.get("items") {
                check(root, each, item, &format!("{path}/{index}"), wrong);
            }
        }
    }
    let Some(fields) = document.as_object() else { return };
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !fields.contains_key(required.as_str().unwrap_or_default()) {
            wrong.push(format!("{path}: {required} is missing"));
        }
    }
    for (name, field) in fields {
        let inner = schema.get("properties").and_then(|all| all.get(name));
        if let Some(inner) = inner.or_else(|| schema.get("additionalProperties")) {
            check(root, inner, field, &format!("{path}/{name}"), wrong);
        }
    }
}
