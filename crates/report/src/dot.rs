//! Event graphs in Graphviz's language.

use std::fmt::Write as _;

use crashproof_findings::graph::{EdgeKind, EventGraph, Fate};

/// The graph as a `digraph`, with a cluster per thread.
pub fn digraph(graph: &EventGraph) -> String {
    let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = String::from("digraph execution {\n  node [shape=box, fontname=\"monospace\"];\n");
    let _ = writeln!(text, "  label=\"{}\";", quote(&graph.caption));
    for (column, name) in graph.threads.iter().enumerate() {
        let _ = writeln!(text, "  subgraph cluster_{column} {{\n    label=\"{}\";", quote(name));
        for (index, event) in
            graph.events.iter().enumerate().filter(|(_, event)| event.thread == Some(column))
        {
            let color = match event.fate {
                Fate::Lost => ", color=red",
                Fate::Survived | Fate::Certain => ", color=darkgreen",
                Fate::After => ", color=gray",
                Fate::Plain => "",
            };
            let label = format!("{}\\n{}", quote(&event.text), quote(&event.place.to_string()));
            let _ = writeln!(text, "    e{index} [label=\"{label}\"{color}];");
        }
        text.push_str("  }\n");
    }
    for edge in &graph.edges {
        let (name, style) = match edge.kind {
            EdgeKind::Po => ("po", "color=gray"),
            EdgeKind::Rf => ("rf", "color=darkgreen"),
            EdgeKind::Co => ("co", "color=brown"),
            EdgeKind::Fr => ("fr", "color=orange"),
            EdgeKind::Flush => ("flush", "color=blue, style=dashed"),
        };
        let _ = writeln!(text, "  e{} -> e{} [label=\"{name}\", {style}];", edge.from, edge.to);
    }
    text.push_str("}\n");
    text
}
