//! Findings as SARIF 2.1.0, for GitHub code scanning and other viewers.
//!
//! Kept within what GitHub accepts: <https://docs.github.com/code-security/code-scanning> lists at most 5,000 results
//! shown of a run and 1,000 steps of a flow. A notification says what is left out.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use crashproof_findings::{Edit, Finding, Level, Place, Report, Rule, Sources, Why, rules};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::json;
use serde_sarif::sarif::{
    ArtifactChange, ArtifactContent, ArtifactLocation, CodeFlow, Fix, Invocation, Location, LogicalLocation,
    Message, MultiformatMessageString, Notification, PhysicalLocation, PropertyBag, Region, Replacement,
    ReportingConfiguration, ReportingDescriptor, Result as SarifResult, ResultLevel, Run, Sarif, Suppression,
    ThreadFlow, ThreadFlowLocation, Tool, ToolComponent,
};

/// Results that GitHub shows of a run.
pub const MOST_RESULTS: usize = 5000;
/// Steps that GitHub shows of a flow.
const MOST_STEPS: usize = 1000;
/// Where the book explains a rule; its name is the anchor.
const HELP: &str = "https://github.com/crashproof/crashproof/blob/main/docs/src/rules.md#";
/// Where paths are relative to.
const ROOT: &str = "%SRCROOT%";
/// What may not stand in a path of a URI as it is.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Writes the report.
pub fn write(out: &mut dyn Write, report: &Report, sources: &Sources) -> io::Result<()> {
    let writer = Writer { sources, rules: used_rules(report) };
    let mut findings: Vec<(&Finding, Option<&Why>)> =
        report.findings.iter().map(|finding| (finding, None)).collect();
    findings.extend(report.set_aside.iter().map(|aside| (&aside.finding, Some(&aside.why))));
    // If not all fit, the worst do; what does not count comes last.
    findings.sort_by_key(|(finding, why)| (why.is_some(), finding.level));
    let mut said: Vec<Notification> = Vec::new();
    let mut say = |level: &str, text: String| {
        said.push(Notification::builder().level(json!(level)).message(message(&text)).build());
    };
    report.incomplete.iter().for_each(|reason| say("warning", format!("not covered: {reason}")));
    report.notes.iter().for_each(|note| say("note", note.clone()));
    if let Some(more) = findings.len().checked_sub(MOST_RESULTS).filter(|more| *more > 0) {
        say("warning", format!("{more} more results are left out: GitHub shows {MOST_RESULTS} of a run"));
    }
    let results = findings.iter().take(MOST_RESULTS).map(|(finding, why)| writer.result(finding, *why));
    let driver = ToolComponent::builder()
        .name("crashproof")
        .version(env!("CARGO_PKG_VERSION"))
        .semantic_version(env!("CARGO_PKG_VERSION"))
        .rules(writer.rules.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>())
        .build();
    let properties = BTreeMap::from([
        ("verdict".to_owned(), json!(report.verdict().word())),
        ("bounds".to_owned(), json!(report.bounds)),
        ("stats".to_owned(), json!(report.stats)),
    ]);
    let run = Run::builder()
        .tool(Tool::builder().driver(driver).build())
        .column_kind(json!("unicodeCodePoints"))
        .original_uri_base_ids(roots())
        .invocations(vec![
            Invocation::builder().execution_successful(true).tool_execution_notifications(said).build(),
        ])
        .results(results.collect::<Vec<_>>())
        .properties(PropertyBag::builder().additional_properties(properties).build())
        .build();
    let sarif = Sarif::builder()
        .schema("https://json.schemastore.org/sarif-2.1.0.json")
        .version(json!("2.1.0"))
        .runs(vec![run])
        .build();
    serde_json::to_writer(&mut *out, &sarif)?;
    writeln!(out)
}

/// Where the paths of the report begin.
fn roots() -> BTreeMap<String, ArtifactLocation> {
    let here = std::env::current_dir().unwrap_or_default();
    let path = utf8_percent_encode(&here.to_string_lossy(), PATH).to_string();
    let root = ArtifactLocation::builder().uri(format!("file://{}/", path.trim_end_matches('/'))).build();
    BTreeMap::from([(ROOT.to_owned(), root)])
}

/// The rules that are broken, in the order of the registry.
fn used_rules(report: &Report) -> Vec<&'static Rule> {
    let all = report.findings.iter().chain(report.set_aside.iter().map(|aside| &aside.finding));
    let used: Vec<&str> = all.map(|finding| finding.rule.id).collect();
    rules::all().filter(|rule| used.contains(&rule.id)).collect()
}

fn message(text: &str) -> Message {
    Message::builder().text(text).build()
}

fn multiformat(text: &str) -> MultiformatMessageString {
    MultiformatMessageString::builder().text(text).markdown(text).build()
}

fn descriptor(rule: &Rule) -> ReportingDescriptor {
    let precision = match rule.level {
        Level::Error => "very-high",
        Level::Warning | Level::Note => "high",
    };
    let properties = BTreeMap::from([
        ("tags".to_owned(), json!(["persistent-memory", "crash-consistency", rule.engine.command()])),
        ("precision".to_owned(), json!(precision)),
        (
            "problem.severity".to_owned(),
            json!(if rule.level == Level::Note { "recommendation" } else { rule.level.word() }),
        ),
    ]);
    let help = format!(
        "{}\n### Breaks it\n\n```c\n{}```\n\n### Put right\n\n```c\n{}```\n",
        rule.explanation, rule.bad.source, rule.good.source
    );
    ReportingDescriptor::builder()
        .id(rule.id)
        .name(rule.id)
        .short_description(MultiformatMessageString::builder().text(rule.title).build())
        .full_description(MultiformatMessageString::builder().text(rule.explanation).build())
        .help(multiformat(&help))
        .help_uri(format!("{HELP}{}", rule.id))
        .default_configuration(ReportingConfiguration::builder().level(json!(rule.level.word())).build())
        .properties(PropertyBag::builder().additional_properties(properties).build())
        .build()
}

struct Writer<'a> {
    sources: &'a Sources,
    rules: Vec<&'static Rule>,
}

impl Writer<'_> {
    fn result(&self, finding: &Finding, why: Option<&Why>) -> SarifResult {
        let mut words = finding.message.clone();
        if let Some(cause) = &finding.cause {
            words += "\nCause: ";
            words += &cause.message;
        }
        for evidence in &finding.evidence {
            words += "\n";
            words += evidence;
        }
        if let Some(fix) = &finding.fix {
            words += "\nFix: ";
            words += &fix.message;
        }
        if !finding.output.is_empty() {
            words += "\nRecovery printed:\n";
            words += &finding.output;
        }
        let mut properties = BTreeMap::from([("count".to_owned(), json!(finding.count))]);
        if !finding.also.is_empty() {
            properties.insert("also".into(), json!(finding.also));
        }
        if let Some(cause) = &finding.cause {
            properties.insert("cause".into(), json!(cause.kind));
        }
        if !finding.replay.is_empty() {
            properties.insert("replay".into(), json!(finding.replay));
        }
        let mut result = SarifResult::builder()
            .rule_id(finding.rule.id)
            .rule_index(self.rules.iter().position(|rule| rule.id == finding.rule.id).unwrap_or(0) as i64)
            .level(match finding.level {
                Level::Error => ResultLevel::Error,
                Level::Warning => ResultLevel::Warning,
                Level::Note => ResultLevel::Note,
            })
            .message(message(&words))
            .occurrence_count(finding.count as i64)
            .partial_fingerprints(BTreeMap::from([("crashproof/v1".to_owned(), finding.fingerprint.clone())]))
            .locations(vec![self.location(&finding.place, None)])
            .properties(PropertyBag::builder().additional_properties(properties).build())
            .build();
        if !finding.related.is_empty() {
            result.code_flows = Some(vec![self.flow(finding)]);
            let main = finding.related.iter().filter(|related| related.main).enumerate();
            let located = main.map(|(number, related)| {
                let text = format!("{}: {}", related.role.word(), related.message);
                Location { id: Some(number as i64 + 1), ..self.location(&related.place, Some(&text)) }
            });
            result.related_locations = Some(located.collect());
        }
        if let Some(fix) = finding.fix.as_ref().filter(|fix| !fix.edits.is_empty()) {
            result.fixes = Some(vec![self.fix(fix)]);
        }
        match why {
            Some(Why::Suppressed(reason)) => {
                let suppression =
                    Suppression::builder().kind(json!("external")).justification(reason.clone()).build();
                result.suppressions = Some(vec![suppression]);
            }
            Some(Why::Known) => result.baseline_state = Some(json!("unchanged")),
            None => {}
        }
        result
    }

    /// The story, in order.
    fn flow(&self, finding: &Finding) -> CodeFlow {
        let steps = finding.related.iter().take(MOST_STEPS).enumerate().map(|(index, related)| {
            let text = format!("{}: {}", related.role.word(), related.message);
            ThreadFlowLocation::builder()
                .location(self.location(&related.place, Some(&text)))
                .execution_order(index as i64 + 1)
                .importance(json!("essential"))
                .build()
        });
        let flow = ThreadFlow::builder().locations(steps.collect::<Vec<_>>()).build();
        CodeFlow::builder().message(message(&finding.message)).thread_flows(vec![flow]).build()
    }

    fn location(&self, place: &Place, text: Option<&str>) -> Location {
        let mut physical = PhysicalLocation::builder().artifact_location(artifact(&place.file)).build();
        if place.is_known() {
            physical.region = Some(self.region(place));
        }
        let mut location = Location::builder().physical_location(physical).build();
        if !place.function.is_empty() {
            let function = LogicalLocation::builder().name(place.function.clone()).kind("function").build();
            location.logical_locations = Some(vec![function]);
        }
        location.message = text.map(message);
        location
    }

    fn region(&self, place: &Place) -> Region {
        let mut region = Region::builder().start_line(i64::from(place.line)).build();
        let source = self.sources.get(&place.file);
        let line = source.as_ref().and_then(|source| source.line(place.line));
        region.start_column = column(line, place.column);
        if let Some(line) = line {
            region.end_column = Some(line.trim_end().chars().count() as i64 + 1)
                .filter(|end| region.start_column.is_some_and(|start| start < *end));
            region.snippet = Some(ArtifactContent::builder().text(line).build());
        }
        region
    }

    fn fix(&self, fix: &crashproof_findings::Fix) -> Fix {
        let mut changes: BTreeMap<&str, Vec<Replacement>> = BTreeMap::new();
        for edit in &fix.edits {
            changes.entry(&edit.file).or_default().push(self.replacement(edit));
        }
        let changes = changes.into_iter().map(|(file, replacements)| {
            ArtifactChange::builder().artifact_location(artifact(file)).replacements(replacements).build()
        });
        Fix::builder()
            .description(message(&fix.message))
            .artifact_changes(changes.collect::<Vec<_>>())
            .build()
    }

    fn replacement(&self, edit: &Edit) -> Replacement {
        let source = self.sources.get(&edit.file);
        let column =
            |line: u32, byte: u32| column(source.as_ref().and_then(|it| it.line(line)), byte).unwrap_or(1);
        let region = Region::builder()
            .start_line(i64::from(edit.line.max(1)))
            .start_column(column(edit.line, edit.column))
            .end_line(i64::from(edit.end_line.max(1)))
            .end_column(column(edit.end_line, edit.end_column))
            .build();
        Replacement::builder()
            .deleted_region(region)
            .inserted_content(ArtifactContent::builder().text(edit.text.clone()).build())
            .build()
    }
}

/// A column in characters from one in bytes.
fn column(line: Option<&str>, byte: u32) -> Option<i64> {
    let index = (byte as usize).checked_sub(1)?;
    let before = line.and_then(|line| line.get(..index));
    Some(before.map_or(i64::from(byte), |before| before.chars().count() as i64 + 1))
}

fn artifact(file: &str) -> ArtifactLocation {
    let encoded = utf8_percent_encode(file.strip_prefix("./").unwrap_or(file), PATH).to_string();
    if Path::new(file).is_absolute() {
        ArtifactLocation::builder().uri(format!("file://{encoded}")).build()
    } else {
        ArtifactLocation::builder().uri(encoded).uri_base_id(ROOT).build()
    }
}
