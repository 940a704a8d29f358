//! Places in the source.

use std::fmt;

use serde::Serialize;

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// As the compiler was given it, relative to the directory of the run where possible. Bytes that are not
    /// UTF-8 are replaced; [`crate::Sources`] finds the file nevertheless.
    pub file: String,
    /// From 1; 0 if not known.
    pub line: u32,
    /// From 1, in bytes; 0 if not known.
    pub column: u32,
    /// The function, empty if not known.
    pub function: String,
    /// How one gets there: calls that were inlined around it first, then the call stack; innermost first.
    pub frames: Vec<Frame>,
}

impl Place {
    /// A place of which only file, line and column are known.
    pub fn new(file: impl Into<String>, line: u32, column: u32) -> Place {
        Place { file: file.into(), line, column, ..Place::default() }
    }

    /// Is there anything to point at?
    pub fn is_known(&self) -> bool {
        self.line > 0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.file)?;
        match (self.line, self.column) {
            (0, _) => Ok(()),
            (line, 0) => write!(out, ":{line}"),
            (line, column) => write!(out, ":{line}:{column}"),
        }
    }
}

/// A call on the way to a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    /// File of the call.
    pub file: String,
    /// Line of the call.
    pub line: u32,
    /// Column of the call.
    pub column: u32,
    /// The calling function.
    pub function: String,
    /// Was the call inlined? Otherwise it is a frame of the stack.
    pub inlined: bool,
}

/// A function name for messages: in C++, without its parameters and template arguments, which would take several lines.
pub fn plain_function(name: &str) -> String {
    const NAMELESS: &str = "(anonymous namespace)";
    let (mut plain, mut depth, mut rest) = (String::new(), 0_u32, name);
    // Names of Rust have no parameters, and may begin with the type that a method is of.
    if !name.contains('(') {
        return name.to_owned();
    }
    while let Some(next) = rest.chars().next() {
        let bytes = match next {
            '<' | '(' if plain.ends_with("operator") && depth == 0 => {
                // `operator()(int)`, `operator<(T const&)`: the last bracket opens the parameters.
                let sign = if next == '(' { 2 } else { rest.find('(').unwrap_or(rest.len()) };
                plain.push_str(&rest[..sign]);
                sign
            }
            '(' if depth == 0 && rest.starts_with(NAMELESS) => {
                plain.push_str(NAMELESS);
                NAMELESS.len()
            }
            '(' if depth == 0 => break,
            '{' if depth == 0 => {
                let end = rest.find('}').map_or(rest.len(), |end| end + 1);
                plain.push_str(&rest[..end]);
                end
            }
            '<' => {
                depth += 1;
                1
            }
            '>' => {
                depth = depth.saturating_sub(1);
                1
            }
            _ => {
                if depth == 0 {
                    plain.push(next);
                }
                next.len_utf8()
            }
        };
        rest = &rest[bytes..];
    }
    // Templates are demangled with what they return.
    match plain.rsplit_once(' ') {
        Some((_, last)) if !plain.contains("operator") && !plain.contains(NAMELESS) => last.to_owned(),
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::plain_function;

    #[test]
    fn functions_as_people_call_them() {
        for (name, plain) in [
            ("put", "put"),
            ("<log::Log>::append", "<log::Log>::append"),
            ("kv::Store::put(std::basic_string_view<char, std::char_traits<char>>, int)", "kv::Store::put"),
            ("std::vector<int, std::allocator<int>>::push_back(int const&)", "std::vector::push_back"),
            ("(anonymous namespace)::flush(void*)", "(anonymous namespace)::flush"),
            ("Key::operator<(Key const&) const", "Key::operator<"),
            ("Less::operator()(int, int)", "Less::operator()"),
            ("Log::operator<<(int)", "Log::operator<<"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
            ("void persist<long>(long*)", "persist"),
        ] {
            assert_eq!(plain_function(name), plain);
        }
    }
}
