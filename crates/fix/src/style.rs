//! How a program flushes: the way its file does it already.

use crate::statement::Target;

/// The project's own words for flushing and fencing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Macros {
    /// Flushes; `{addr}` and `{len}` stand for what.
    pub flush: String,
    /// Fences; none if `flush` does that, too.
    pub fence: Option<String>,
}

/// A way to flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `crashproof.h`.
    Crashproof,
    /// libpmem.
    Libpmem,
    /// Intrinsics: the name of the one that flushes.
    Intrinsics(&'static str),
    /// The project's own.
    Own(Macros),
}

/// What the intrinsics need.
pub(crate) const INTRINSICS_HEADER: &str = "#include <immintrin.h>";

impl Style {
    /// The style of a file: what it calls, else what it includes; intrinsics if it has none.
    pub(crate) fn of(source: &str, macros: Option<&Macros>) -> Style {
        let uses = |name: &str| source.contains(name);
        match macros {
            Some(macros) => Style::Own(macros.clone()),
            None if let Some(helper) = own_helper(source) => {
                Style::Own(Macros { flush: format!("{helper}({{addr}}, {{len}})"), fence: None })
            }
            None if uses("pmem_persist(") || uses("pmem_flush(") => Style::Libpmem,
            None if uses("crashproof_persist(") || uses("crashproof_flush(") => Style::Crashproof,
            None if uses("<libpmem.h>") => Style::Libpmem,
            None if uses("crashproof.h") => Style::Crashproof,
            None if uses("_mm_clwb(") => Style::Intrinsics("_mm_clwb"),
            None if uses("_mm_clflushopt(") => Style::Intrinsics("_mm_clflushopt"),
            None => Style::Intrinsics("_mm_clflush"),
        }
    }

    /// Must a header be included first?
    pub(crate) fn missing_header(&self, source: &str) -> Option<&'static str> {
        let included = ["<immintrin.h>", "<x86intrin.h>", "<emmintrin.h>"];
        let needs =
            matches!(self, Style::Intrinsics(_)) && !included.iter().any(|name| source.contains(name));
        needs.then_some(INTRINSICS_HEADER)
    }

    /// Statements that flush, and fence if `fence`.
    pub(crate) fn flush(&self, target: &Target, fence: bool) -> Vec<String> {
        let Target { address, length, .. } = target;
        let mut code = Vec::new();
        match self {
            Style::Crashproof if fence => code.push(format!("crashproof_persist({address}, {length});")),
            Style::Crashproof => code.push(format!("crashproof_flush({address}, {length});")),
            Style::Libpmem if fence => code.push(format!("pmem_persist({address}, {length});")),
            Style::Libpmem => code.push(format!("pmem_flush({address}, {length});")),
            Style::Intrinsics(flush) => {
                if target.small {
                    code.push(format!("{flush}((void *){address});"));
                } else {
                    code.push(format!(
                        "for (char *line_ = (char *)((unsigned long)({address}) & ~63ul); line_ < (char *)({address}) + \
                         ({length}); line_ += 64)"
                    ));
                    code.push(format!("  {flush}(line_);"));
                }
                code.extend(fence.then(|| self.fence()));
            }
            Style::Own(macros) => {
                let text = macros.flush.replace("{addr}", address).replace("{len}", length);
                code.push(statement(&text));
                code.extend((fence && macros.fence.is_some()).then(|| self.fence()));
            }
        }
        code
    }

    /// A statement that fences.
    pub(crate) fn fence(&self) -> String {
        match self {
            Style::Crashproof => "crashproof_drain();".into(),
            Style::Libpmem => "pmem_drain();".into(),
            Style::Intrinsics(_) => "_mm_sfence();".into(),
            Style::Own(macros) => {
                statement(macros.fence.as_deref().unwrap_or("__asm__ volatile(\"sfence\" ::: \"memory\")"))
            }
        }
    }
}

/// The function of the project that the file calls to persist a range: `persist(s, sizeof *s)`, `pm::persist(&e, 8)`. Its
/// second argument must look like a length. Whether it does what its name says the check that follows shows.
fn own_helper(source: &str) -> Option<String> {
    for (at, _) in source.match_indices("persist") {
        let path = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
        let start = source[..at].rfind(|it| !path(it)).map_or(0, |before| before + 1);
        let end = at + source[at..].find(|it| !path(it))?;
        let name = &source[start..end];
        let before = source[..start].trim_end();
        let is_call =
            source[end..].starts_with('(') && (before.ends_with([';', '{', '}', ')']) || before.is_empty());
        if !is_call || ["pmem", "crashproof_"].iter().any(|library| name.starts_with(library)) {
            continue;
        }
        let arguments = &source[end + 1..end + source[end..].find(';')?];
        let Some(arguments) = arguments.trim_end().strip_suffix(')') else { continue };
        let mut depth = 0;
        let parts: Vec<&str> = arguments
            .split(|it: char| {
                depth += i32::from(it == '(') - i32::from(it == ')');
                it == ',' && depth == 0
            })
            .collect();
        let is_length = |text: &str| {
            let text = text.to_lowercase();
            ["size", "len", "bytes"].iter().any(|word| text.contains(word))
                || text.trim().bytes().all(|byte| byte.is_ascii_digit())
        };
        if let [_, length] = parts[..]
            && is_length(length)
        {
            return Some(name.to_owned());
        }
    }
    None
}

fn statement(text: &str) -> String {
    let text = text.trim().trim_end_matches(';');
    format!("{text};")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_fixed_in_their_own_style() {
        let target = Target { address: "&a->b".into(), length: "sizeof(a->b)".into(), small: true };
        let code =
            |source: &str, macros: Option<&Macros>| Style::of(source, macros).flush(&target, true).join(" ");
        assert_eq!(code("#include <crashproof.h>", None), "crashproof_persist(&a->b, sizeof(a->b));");
        assert_eq!(code("crashproof_flush(x, 8);", None), "crashproof_persist(&a->b, sizeof(a->b));");
        assert_eq!(code("pmem_persist(x, 8);", None), "pmem_persist(&a->b, sizeof(a->b));");
        assert_eq!(code("_mm_clwb(x);", None), "_mm_clwb((void *)&a->b); _mm_sfence();");
        assert_eq!(code("", None), "_mm_clflush((void *)&a->b); _mm_sfence();");
        let helper = "void persist(void *p, size_t n);\nvoid f() {\n  x = 1;\n  persist(&x, sizeof x);\n}";
        assert_eq!(code(helper, None), "persist(&a->b, sizeof(a->b));");
        assert_eq!(code("{ e.n = 1; pm::persist(&e, 8); }", None), "pm::persist(&a->b, sizeof(a->b));");
        assert_eq!(code("{ persist_all(x, callback); }", None), "_mm_clflush((void *)&a->b); _mm_sfence();");
        let own = Macros { flush: "FLUSH({addr}, {len})".into(), fence: Some("FENCE();".into()) };
        assert_eq!(code("", Some(&own)), "FLUSH(&a->b, sizeof(a->b)); FENCE();");
    }
}
