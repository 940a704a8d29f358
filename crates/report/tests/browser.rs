//! The page in a real browser: it loads without complaint, filters filter, a click on a store shows its source.
//!
//! Chromium runs without a window and prints the document after a script of this test has used the page and noted
//! what happened. `scripts/setup test` installs it; without it these tests say that they were skipped.

use std::path::PathBuf;
use std::process::Command;

use crashproof_findings::graph::{EdgeKind, EventGraph, GraphEdge, GraphEvent};
use crashproof_findings::rules::check::{FLUSH_CLEAN_LINE, RECOVERY_FAILS};
use crashproof_findings::story::{Crash, Event, Execution, Fate, Kind, Lane, Story, StoryPlace};
use crashproof_findings::{Finding, Place, Related, Report, Role, Sources};
use crashproof_report::html;
use serde_json::{Value, json};

const SOURCE: &str = "void add(struct node *node) {
  struct child *child = alloc(); // <img src=x onerror=\"document.title='owned'\"></script>
  child->data = 42;
  node->child = child;
  persist(&node->child);
}
int main(void) {
  if (root->child)
    assert(root->child->data == 42);
}
";

fn event(kind: Kind, lane: Option<usize>, place: usize, fate: Fate) -> Event {
    let stores = kind == Kind::Store || kind == Kind::Read;
    let text = |shown: bool, text: &str| if shown { text.to_owned() } else { String::new() };
    Event {
        number: place as u64,
        thread: 0,
        kind,
        lane,
        address: text(lane.is_some(), "0x100180000000"),
        width: if stores { 8 } else { 0 },
        name: text(lane.is_some(), "child->data"),
        shown: text(stores, "42"),
        value: text(stores, "0x2a"),
        place,
        fate,
    }
}

fn story() -> Story {
    let lane = |address: &str, after, before| Lane {
        name: "child->data".into(),
        address: address.into(),
        written_after: after,
        written_before: before,
    };
    let places = [3, 4, 5, 8, 9].map(|line| StoryPlace {
        file: "add.c".into(),
        line,
        column: 3,
        function: if line < 7 { "add" } else { "main" }.into(),
    });
    let run = Execution {
        title: "the run".into(),
        lanes: vec![lane("0x100140000000", Some(1), None), lane("0x100180000000", None, Some(0))],
        events: vec![
            event(Kind::Store, Some(1), 0, Fate::Lost),
            event(Kind::Store, Some(0), 1, Fate::Survived),
            event(Kind::FlushOpt, Some(0), 2, Fate::Plain),
        ],
        crash: Some(Crash { place: 2, message: "just before this".into() }),
        left_out: 12,
        lanes_left_out: 1,
    };
    let recovery = Execution {
        title: "recovery".into(),
        lanes: vec![lane("0x100140000000", None, None), lane("0x100180000000", None, None)],
        events: vec![event(Kind::Read, Some(0), 3, Fate::Plain), event(Kind::Read, Some(1), 4, Fate::Plain)],
        ..Execution::default()
    };
    Story { executions: vec![run, recovery], places: places.to_vec() }
}

fn graph() -> EventGraph {
    let node = |thread, text: &str, line, fate| GraphEvent {
        thread,
        text: text.into(),
        place: Place::new("add.c", line, 1),
        fate,
    };
    let edge = |from, to, kind| GraphEdge { from, to, kind };
    EventGraph {
        threads: vec!["thread 0".into(), "thread 1".into()],
        events: vec![
            node(None, "x = 0", 1, Fate::Certain),
            node(Some(0), "x = 1", 3, Fate::Lost),
            node(Some(0), "flush x", 5, Fate::Plain),
            node(Some(1), "r1 = x", 8, Fate::Plain),
            node(Some(1), "y = r1", 9, Fate::Survived),
        ],
        edges: vec![
            edge(0, 1, EdgeKind::Co),
            edge(1, 2, EdgeKind::Po),
            edge(1, 3, EdgeKind::Rf),
            edge(3, 4, EdgeKind::Po),
            edge(2, 1, EdgeKind::Flush),
        ],
        caption: "x = 1 is lost, although y = r1 survives".into(),
    }
}

fn lost(line: u32) -> Finding {
    let place = Place { function: "add".into(), ..Place::new("add.c", line, 15) };
    let mut finding = Finding::new(&RECOVERY_FAILS, place, "recovery fails an <b>assertion</b>");
    let steps = [(Role::Lost, 3), (Role::Survived, 4), (Role::Crash, 5), (Role::Read, 8), (Role::Read, 9)];
    for (role, line) in steps {
        let place = Place { function: "add".into(), ..Place::new("add.c", line, 3) };
        finding.related.push(Related::new(role, place, "8 bytes at 0x100180000000 := 0x2a"));
    }
    finding.output = "<script>alert(1)</script>".into();
    finding.replay = "eyJ2IjoxfQ".into();
    finding.story = Some(story());
    finding
}

fn sources() -> Sources {
    let sources = Sources::default();
    sources.insert("add.c", SOURCE);
    sources
}

fn report() -> Report {
    let mut report = Report::new("check", "./add \"<x>\"");
    report.findings.push(lost(3));
    report.findings[0].graph = Some(graph());
    report.findings.push(lost(4));
    report.findings.push(Finding::new(&FLUSH_CLEAN_LINE, Place::new("add.c", 5, 1), "wasted, 3 of 3 times"));
    report.incomplete.push("stopped after 3 recoveries".into());
    report.stats.insert("recoveries".into(), json!(12_345));
    report.finish(&sources());
    report
}

fn page(report: &Report) -> String {
    let mut bytes = Vec::new();
    html::write(&mut bytes, report, &sources()).expect("written");
    String::from_utf8(bytes).expect("UTF-8")
}

/// The browser, if there is one.
fn chromium() -> Option<&'static str> {
    let there =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|it| it.status.success());
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(there);
    if found.is_none() {
        eprintln!("skipped: no chromium; `scripts/setup test` installs it");
    }
    found
}

/// Opens the page, lets `script` use it, and gives what it left in `result`; console messages are failures.
fn use_page(name: &str, page: &str, script: &str) -> Option<Value> {
    let browser = chromium()?;
    let directory = tempfile::tempdir().expect("a directory");
    let file: PathBuf = directory.path().join(format!("{name}.html"));
    let watch =
        "<script>window.problems = []; addEventListener('error', it => problems.push(it.message));</script>";
    let act = format!(
        "<script>const result = {{}}; try {{ {script} }} catch (error) {{ problems.push(String(error)); }}
         result.problems = problems; document.body.setAttribute('data-result', encodeURIComponent(JSON.stringify(result)));
         </script>"
    );
    let tested =
        page.replacen("<head>", &format!("<head>{watch}"), 1).replace("</body>", &format!("{act}</body>"));
    std::fs::write(&file, tested).expect("written");
    if let Some(keep) = std::env::var_os("CRASHPROOF_SCREENSHOTS") {
        std::fs::write(PathBuf::from(keep).join(format!("{name}.html")), page).expect("kept");
    }
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"])
        .args(["--enable-logging=stderr", "--window-size=1280,1000", "--virtual-time-budget=4000"])
        .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "the console says: {console:#?}");
    let document = String::from_utf8_lossy(&output.stdout);
    let start = document.find("data-result=\"").map(|at| at + 13);
    let start = start.unwrap_or_else(|| panic!("the page did not run:\n{said}"));
    let end = document[start..].find('"').expect("an end") + start;
    let result = percent_encoding::percent_decode_str(&document[start..end]).decode_utf8_lossy();
    let result: Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result["problems"], json!([]), "nothing goes wrong");
    Some(result)
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = page(&report());
    for reference in ["src=\"", "href=\"http", "@import", "url(http", "fetch("] {
        let outside_of_data = page.split("<script id=\"data\"").next().expect("a head");
        assert!(!outside_of_data.contains(reference), "{reference}");
    }
    assert_eq!(page.matches("</script>").count(), 2, "nothing in the data ends a script");
}

#[test]
fn filters_filter() {
    let script = "
        const shown = () => document.querySelectorAll('article').length;
        result.all = shown();
        const warnings = document.querySelector('[data-level=warning] , input[data-level=warning]');
        const box = document.querySelector('input[data-level=warning]');
        box.click(); result.errors = shown(); box.click();
        const search = document.getElementById('search');
        search.value = 'WASTED'; search.dispatchEvent(new Event('input')); result.searched = shown();
        search.value = ''; search.dispatchEvent(new Event('input'));
        const rule = document.getElementById('rule');
        rule.value = 'recovery-fails'; rule.dispatchEvent(new Event('change')); result.rule = shown();
        result.status = document.getElementById('shown').textContent;
        result.covered = document.getElementById('overview').textContent.includes('stopped after 3 recoveries');";
    let Some(result) = use_page("filters", &page(&report()), script) else { return };
    assert_eq!(
        [&result["all"], &result["errors"], &result["searched"], &result["rule"]],
        [&json!(3), &json!(2), &json!(1), &json!(2)]
    );
    assert_eq!(result["status"], "2 findings of 3");
    assert_eq!(result["covered"], true);
}

#[test]
fn a_click_leads_from_event_to_source_and_back() {
    let script = "
        const hit = () => [...document.querySelectorAll('.row.hit')].map(it => it.querySelector('.text').textContent);
        const first = document.getElementById('f0');
        result.open = first.querySelector('.open').getAttribute('aria-expanded');
        first.querySelector('svg .ev.lost').dispatchEvent(new MouseEvent('click', { bubbles: true }));
        result.store = hit();
        first.querySelector('svg .ev.survived').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
        result.keyboard = hit();
        first.querySelector('.row[data-place=\"add.c:9\"]').click();
        result.events = [...first.querySelectorAll('svg .ev.hit')].map(it => it.getAttribute('aria-label'));
        const read = first.querySelector('svg .ev.read'); read.focus();
        read.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
        result.arrow = document.activeElement.getAttribute('aria-label');
        result.tip = document.getElementById('tip').textContent;
        result.images = document.images.length;
        result.title = document.title;
        result.shown = first.textContent.includes('<img src=x onerror=');
        result.unreachable = [...first.querySelectorAll('svg .ev')].filter(it => it.tabIndex !== 0 && !it.closest('[aria-hidden]')).length;";
    let Some(result) = use_page("clicks", &page(&report()), script) else { return };
    assert_eq!(result["open"], "true", "the first finding is open");
    assert_eq!(result["store"], json!(["  child->data = 42;"]));
    assert_eq!(result["keyboard"], json!(["  node->child = child;"]));
    assert_eq!(result["events"].as_array().map(Vec::len), Some(2), "in the timeline and in the graph");
    assert!(
        result["arrow"].as_str().is_some_and(|it| it.starts_with("recovery reads child->data: 42")),
        "{}",
        result["arrow"]
    );
    assert!(result["tip"].as_str().is_some_and(|it| it.contains("assert(root->child->data == 42);")));
    assert_eq!((&result["images"], &result["shown"]), (&json!(0), &json!(true)), "markup in sources is text");
    assert_ne!(result["title"], "owned");
    assert_eq!(result["unreachable"], 0, "everything is reached with the keyboard");
}

/// Long names and values, several threads, many events: labels of a picture never lie over each other.
#[test]
fn labels_never_meet() {
    let mut report = report();
    let story = report.findings[0].story.as_mut().expect("a story");
    for (number, event) in story.executions[0].events.iter_mut().enumerate() {
        event.thread = number as u16 % 3;
        event.shown = "\"a text of many characters\"".into();
    }
    let repeated: Vec<Event> = story.executions[0].events.iter().cycle().take(30).cloned().collect();
    story.executions[0].events = repeated;
    story.executions[0].lanes[0].name = "table->buckets[17].entries[3].a_rather_long_name".into();
    let script = "
        const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
        result.over = [];
        for (const svg of document.querySelectorAll('.chart svg')) {
          const texts = [...svg.querySelectorAll('text')].map(it => [it.textContent, it.getBoundingClientRect()]);
          texts.forEach(([one, a], index) => texts.slice(index + 1).forEach(([other, b]) => { if (meet(a, b)) result.over.push([one, other]); }));
        }
        result.texts = document.querySelectorAll('.chart svg text').length;";
    let Some(result) = use_page("labels", &page(&report), script) else { return };
    assert_eq!(result["over"], json!([]));
    assert!(result["texts"].as_u64().is_some_and(|texts| texts > 30), "{result}");
}

#[test]
fn huge_reports_stay_small() {
    let mut report = Report::new("check", "huge");
    for line in 1..=10_000 {
        let mut finding = lost(line);
        let events = &mut finding.story.as_mut().expect("a story").executions[0].events;
        let one = events[0].clone();
        events.extend(std::iter::repeat_n(one, 160));
        finding.replay = "e".repeat(400);
        report.findings.push(finding);
    }
    report.finish(&sources());
    let page = page(&report);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(page.contains("the details of 9"), "what is left out is said");
    let script = "
        result.articles = document.querySelectorAll('article').length;
        result.status = document.getElementById('shown').textContent;
        result.milliseconds = performance.now();
        document.getElementById('more').click();
        result.more = document.querySelectorAll('article').length;";
    let Some(result) = use_page("huge", &page, script) else { return };
    println!("huge: {} bytes, drawn after {} ms", page.len(), result["milliseconds"]);
    assert_eq!(
        (&result["articles"], &result["more"]),
        (&json!(200), &json!(400)),
        "not all are drawn at once"
    );
    assert!(result["status"].as_str().is_some_and(|it| it.contains("the first 200 shown")), "{result}");
}
