//! What is written in each format is valid: against the schema of SARIF, against our own, as XML.

mod schema;

use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_findings::rules::check::{FLUSH_CLEAN_LINE, RECOVERY_FAILS};
use crashproof_findings::{
    Also, Cause, Edit, Finding, Fix, Frame, Place, Related, Report, Role, SetAside, Sources, Why,
};
use crashproof_report::{json, junit, sarif};
use serde_json::{Value, json};

const SOURCE: &str = "void insert() {\n  é->next = b; // <b>&\"\n}\n";

/// A report with everything a report can have, and text that formats must escape.
fn everything() -> (Report, Sources) {
    let sources = Sources::default();
    sources.insert("dir with space/list#1.c", SOURCE);
    let place = Place {
        function: "insert<T>".into(),
        frames: vec![Frame {
            file: "main.c".into(),
            line: 3,
            column: 1,
            function: "main".into(),
            inlined: true,
        }],
        ..Place::new("dir with space/list#1.c", 2, 5)
    };
    let mut finding = Finding::new(&RECOVERY_FAILS, place.clone(), "recovery <fails> & \"dies\"");
    for role in [Role::Lost, Role::Survived, Role::Crash, Role::Read, Role::Fix] {
        finding.related.push(Related::new(role, place.clone(), "8 bytes := 0x2a"));
    }
    finding.cause = Some(Cause { kind: "never-flushed", message: "no flush comes before it".into() });
    finding.related[0].detail = "8 bytes at 0x1000, 2a".into();
    finding.failed_at = Some(place.clone());
    finding.evidence.push("seed 3".into());
    finding.output = "\u{1b}[31massertion ]]> failed\0".into();
    finding.replay = "eyJ2".into();
    finding.count = 3;
    finding.also.push(Also { message: "recovery aborts".into(), replay: "eyJ3".into(), count: 1 });
    let edit = Edit {
        file: place.file.clone(),
        line: 3,
        column: 1,
        end_line: 3,
        end_column: 1,
        text: "  persist();\n".into(),
    };
    finding.fix = Some(Fix { edits: vec![edit], ..Fix::advice("flush it") });
    let mut report = Report::new("check", "./program");
    report.findings.push(finding);
    report.findings.push(Finding::new(&FLUSH_CLEAN_LINE, Place::new("/absolute/x.c", 0, 0), "wasted"));
    let aside = Finding::new(&RECOVERY_FAILS, Place::new("old.c", 1, 0), "known");
    report.finish(&sources);
    report.set_aside.push(SetAside { finding: aside.clone(), why: Why::Known });
    report.set_aside.push(SetAside { finding: aside, why: Why::Suppressed("a reason".into()) });
    report.incomplete.push("a limit".into());
    report.notes.push("a suppression fits nothing".into());
    report.bounds.insert("crashes".into(), json!(1));
    report.stats.insert("seconds".into(), json!(0.5));
    report.summary = "one run".into();
    (report, sources)
}

fn sarif_of(report: &Report, sources: &Sources) -> Value {
    let mut bytes = Vec::new();
    sarif::write(&mut bytes, report, sources).expect("written");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn check(schema: &Value, document: &Value) {
    let errors = schema::errors(schema, document);
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// The schema of SARIF, which the crate that writes it carries.
fn sarif_schema() -> Value {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages.iter().find(|it| it["name"] == "serde-sarif").expect("serde-sarif");
    let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a path"));
    let file = manifest.with_file_name("src").join("schema.json");
    // A pattern for languages in it has a bracket too many, and is no regular expression.
    let text =
        std::fs::read_to_string(&file).expect("the schema").replace("-[a-zA-Z]{2}]?$", "-[a-zA-Z]{2}$");
    serde_json::from_str(&text).expect("JSON")
}

fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn sarif_is_valid() {
    let (report, sources) = everything();
    let document = sarif_of(&report, &sources);
    let schema = sarif_schema();
    check(&schema, &document);
    check(&schema, &sarif_of(&Report::new("check", "empty"), &sources));
    let result = &document["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "recovery-fails");
    let location = &result["locations"][0]["physicalLocation"];
    assert_eq!(location["artifactLocation"]["uri"], "dir%20with%20space/list%231.c");
    // Columns are characters: the é before it is two bytes.
    assert_eq!(location["region"]["startColumn"], 4);
    assert_eq!(result["codeFlows"][0]["threadFlows"][0]["locations"].as_array().map(Vec::len), Some(5));
    assert_eq!(result["fixes"][0]["artifactChanges"][0]["replacements"].as_array().map(Vec::len), Some(1));
    assert_eq!(result["partialFingerprints"]["crashproof/v1"], report.findings[0].fingerprint);
}

#[test]
fn sarif_stays_within_what_github_takes() {
    let mut report = Report::new("check", "huge");
    for line in 1..=12_000 {
        let rule = if line % 3 == 0 { &RECOVERY_FAILS } else { &FLUSH_CLEAN_LINE };
        let mut finding = Finding::new(rule, Place::new("a.c", line, 1), format!("wrong in {line}"));
        for step in 0..20 {
            let place = Place::new("a.c", line + step, 1);
            finding.related.push(Related::new(Role::Lost, place, "lost"));
        }
        report.findings.push(finding);
    }
    report.finish(&Sources::default());
    let document = sarif_of(&report, &Sources::default());
    let results = document["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), sarif::MOST_RESULTS);
    let errors = results.iter().filter(|result| result["level"] == "error").count();
    assert_eq!(errors, 4000, "the worst are kept");
    let said = document["runs"][0]["invocations"][0]["toolExecutionNotifications"].to_string();
    assert!(said.contains("7000 more results are left out"), "{said}");
}

/// Every object of the schema, with nothing allowed that it does not name: a field that is written and not
/// described is as wrong as one that is missing.
fn closed(schema: &mut Value) {
    if let Value::Object(object) = schema {
        let open = ["bounds", "stats"];
        if object.contains_key("properties") {
            object.insert("additionalProperties".into(), json!(false));
        }
        object.iter_mut().filter(|(name, _)| !open.contains(&name.as_str())).for_each(|(_, it)| closed(it));
    }
}

fn bytes_of(report: &Report) -> Vec<u8> {
    let mut bytes = Vec::new();
    json::write(&mut bytes, report).expect("written");
    bytes
}

#[test]
fn json_is_as_its_schema_says() {
    let (report, _) = everything();
    let mut schema = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/report.schema.json"));
    closed(&mut schema);
    for report in [&report, &Report::new("check", "empty")] {
        let mut bytes = Vec::new();
        json::write(&mut bytes, report).expect("written");
        check(&schema, &serde_json::from_slice(&bytes).expect("JSON"));
    }
    // In lines: the findings, then the rest.
    let mut bytes = Vec::new();
    json::write_lines(&mut bytes, &report).expect("written");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (rest, findings) = lines.split_last().expect("lines");
    check(&schema, rest);
    let mut one = schema.clone();
    one["$ref"] = json!("#/$defs/finding");
    for key in ["type", "required", "properties", "additionalProperties"] {
        one.as_object_mut().expect("an object").remove(key);
    }
    assert_eq!(findings.len(), report.findings.len());
    findings.iter().for_each(|finding| check(&one, finding));
    // The schema is not so lax that anything passes.
    assert!(!schema::errors(&schema, &json!({"tool": "crashproof"})).is_empty());
    let mut odd: Value = serde_json::from_slice(&bytes_of(&report)).expect("JSON");
    odd["findings"][0]["line"] = json!("three");
    assert!(!schema::errors(&schema, &odd).is_empty());
}

#[test]
fn junit_is_read_back() {
    let (report, _) = everything();
    let mut bytes = Vec::new();
    junit::write(&mut bytes, &report).expect("written");
    let read = quick_junit::Report::deserialize(&bytes[..]).expect("JUnit");
    assert_eq!((read.tests, read.failures, read.errors), (5, 1, 1));
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(!text.contains('\u{1b}') && text.contains("&lt;fails&gt;"), "{text}");
    let mut bytes = Vec::new();
    junit::write(&mut bytes, &Report::new("check", "empty")).expect("written");
    let read = quick_junit::Report::deserialize(&bytes[..]).expect("JUnit");
    assert_eq!((read.tests, read.failures), (1, 0), "a clean run is a test that passed");
}
