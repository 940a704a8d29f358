//! Reads inline assembly the way persistent-memory code writes it.
//!
//! Input is what LLVM keeps of an `asm` statement: template, constraints, dialect. Output is either what
//! the statement does to memory, or why that cannot be said. Pure text in, plain data out; nothing here
//! knows LLVM.
//!
//! # What is understood
//!
//! * flushes and fences, spelled out (`clwb $0`, `clflush ($0)`) or with the prefix bytes that old
//!   assemblers need (`.byte 0x66; clflush $0` is `clflushopt`, `.byte 0x66; xsaveopt $0` is `clwb`);
//! * accesses through memory operands (`"m"`), whatever the instruction;
//! * accesses through a register operand (`movnti %0,(%1)`, `[{0} + 8]`), if the instruction tells how
//!   many bytes it touches;
//! * instructions without memory operands.
//!
//! # What is not, and is said to be so
//!
//! String instructions, calls and system calls, transactions, raw bytes, gathers, saved processor state,
//! addresses computed inside the assembly, fences between two accesses of one statement.
//!
//! An access whose address is in `rsp` or `rbp`, in a segment register or a symbol is not to PM: symbols
//! of persistent globals do not survive instrumentation (see `globals.rs`).

use crashproof_abi::asm::{LOCKED, NONTEMPORAL, READ, WRITE};

/// Which flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// `clflush`.
    Clflush,
    /// `clflushopt`.
    Clflushopt,
    /// `clwb`.
    Clwb,
}

/// An address in terms of the operands of the statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A memory operand, and a distance from it.
    Memory {
        /// Which operand.
        operand: usize,
        /// How far from it.
        displacement: i64,
    },
    /// Register operands and a constant.
    Computed {
        /// The operand it starts from.
        base: Option<usize>,
        /// The operand that is scaled.
        index: Option<usize>,
        /// By this.
        scale: u8,
        /// The constant part.
        displacement: i64,
    },
}

/// Something done that is no access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A flush of the line of an address.
    Flush(Flush, Address),
    /// `sfence`.
    Sfence,
    /// `mfence`, or a locked instruction on the stack.
    Mfence,
    /// `pause`.
    Pause,
}

/// An access to memory that may be PM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Where.
    pub address: Address,
    /// `None`: as many as the memory operand has.
    pub bytes: Option<u32>,
    /// Of `crashproof_abi::asm`.
    pub flags: u32,
}

/// What a statement does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Before the first access.
    pub before: Vec<Effect>,
    /// In order.
    pub accesses: Vec<Access>,
    /// After the last access.
    pub after: Vec<Effect>,
    /// The statement does nothing but `before`, so it need not run at all on PM.
    pub only_effects: bool,
}

/// An operand as the constraint string describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operand {
    /// The operand is memory; the call passes its address.
    pub memory: bool,
    /// The statement writes it.
    pub output: bool,
    /// Shares its place with an output.
    tied: Option<usize>,
    /// Must be in this register, named in full width.
    register: Option<String>,
    /// Position among the arguments of the call; outputs in registers have none.
    pub argument: Option<usize>,
}

/// Reads a constraint string. Clobbers are dropped.
pub fn operands(constraints: &str) -> Vec<Operand> {
    let mut all = Vec::new();
    let mut arguments = 0;
    for constraint in constraints.split(',') {
        if constraint.starts_with('~') || constraint.is_empty() {
            continue;
        }
        if constraint.starts_with('!') {
            // A label to jump to: counted, but no argument.
            all.push(Operand { memory: false, output: true, tied: None, register: None, argument: None });
            continue;
        }
        let output = constraint.starts_with('=');
        let rest = constraint.trim_start_matches(['=', '&', '%']);
        let memory = rest.starts_with('*');
        let rest = rest.trim_start_matches('*');
        let register =
            rest.strip_prefix('{').and_then(|r| r.strip_suffix('}')).map(|r| full_register(r).to_owned());
        let argument = (!output || memory).then(|| {
            arguments += 1;
            arguments - 1
        });
        all.push(Operand { memory, output, tied: rest.parse().ok(), register, argument });
    }
    all
}

/// The argument that holds the value of an operand before the statement runs.
pub fn input_argument(operands: &[Operand], operand: usize) -> Option<usize> {
    let own = operands.get(operand)?.argument;
    own.or_else(|| operands.iter().find(|o| o.tied == Some(operand)).and_then(|o| o.argument))
}

/// Reads a statement. `sizes` holds the bytes of each operand's value, where known.
///
/// # Errors
///
/// Says what is not understood.
pub fn read(
    template: &str,
    intel: bool,
    operands: &[Operand],
    sizes: &[Option<u32>],
) -> Result<Summary, String> {
    let mut reader = Reader { intel, operands, sizes, items: Vec::new(), ..Reader::default() };
    for statement in statements(&expand(template, intel)?) {
        reader.statement(&statement)?;
    }
    reader.finish()
}

/// Whether assembly at file scope holds instructions, rather than symbols and data.
pub fn has_instructions(text: &str) -> bool {
    statements(text).iter().any(|statement| {
        let word = strip_labels(statement).split_whitespace().next().unwrap_or("");
        !word.is_empty() && !word.starts_with('.') && !statement.contains('=')
    })
}

/// Marks operands: `MARK number [MODIFIER letter] END`.
const MARK: char = '\u{1}';
const MODIFIER: char = '\u{2}';
const END: char = '\u{3}';

/// Picks the dialect and replaces `$0`, `${0:q}` and `$$`.
fn expand(template: &str, intel: bool) -> Result<String, String> {
    let mut out = String::new();
    let mut characters = template.chars().peekable();
    // The alternative being read, while inside `$( .. $| .. $)`.
    let mut alternative: Option<usize> = None;
    let wanted = usize::from(intel);
    while let Some(c) = characters.next() {
        let keep = alternative.is_none_or(|a| a == wanted);
        if c != '$' {
            if keep {
                out.push(c);
            }
            continue;
        }
        match characters.next() {
            Some('$') if keep => out.push('$'),
            Some('$') => {}
            Some('(') => alternative = Some(0),
            Some('|') => alternative = alternative.map(|a| a + 1),
            Some(')') => alternative = None,
            Some('{') => {
                let inside: String = characters.by_ref().take_while(|c| *c != '}').collect();
                if !keep {
                    continue;
                }
                match inside.split_once(':') {
                    // `${:uid}` and its like only make labels unique.
                    Some(("", _)) => out.push('0'),
                    Some((number, modifier)) => {
                        out.extend([MARK.to_string(), number.into(), MODIFIER.into(), modifier.into()]);
                        out.push(END);
                    }
                    None => out.extend([MARK.to_string(), inside, END.into()]),
                }
            }
            Some(digit) if digit.is_ascii_digit() => {
                let mut number = String::from(digit);
                while let Some(next) = characters.next_if(char::is_ascii_digit) {
                    number.push(next);
                }
                if keep {
                    out.extend([MARK.to_string(), number, END.into()]);
                }
            }
            other => return Err(format!("template escape `${}`", other.unwrap_or(' '))),
        }
    }
    Ok(out)
}

/// Splits at line ends and semicolons, without comments, in lower case.
fn statements(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut text = text.to_ascii_lowercase();
    while let Some(start) = text.find("/*") {
        let end = text[start..].find("*/").map_or(text.len(), |end| start + end + 2);
        text.replace_range(start..end, " ");
    }
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("");
        let line = line.split("//").next().unwrap_or("");
        all.extend(line.split(';').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned));
    }
    all
}

fn strip_labels(statement: &str) -> &str {
    let mut rest = statement.trim();
    while let Some((label, after)) = rest.split_once(':') {
        let is_label = !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$'));
        if !is_label {
            break;
        }
        rest = after.trim();
    }
    rest
}

/// One operand in the text of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// A register, with its full-width name, and its bytes.
    Register(String, Option<u32>),
    /// An operand of the statement in a register (or an immediate), and its bytes if known.
    Value(usize, Option<u32>),
    /// Memory that may be PM. Bytes, if a size was written beside it.
    Memory(Address, Option<u32>),
    /// Memory that is not PM: stack, symbol, segment.
    Elsewhere,
    Immediate,
}

#[derive(Default)]
struct Reader<'a> {
    intel: bool,
    operands: &'a [Operand],
    sizes: &'a [Option<u32>],
    items: Vec<Item>,
    lock: bool,
    repeat: bool,
    operand_size_prefix: bool,
    /// Depth of `.pushsection`: what is there is data, not code.
    in_data: u32,
    jumps: bool,
    /// Some instruction does something that is neither an effect nor an access.
    computes: bool,
    /// Registers and operands written so far.
    written: Vec<Part>,
}

enum Item {
    Effect(Effect),
    Access(Access),
}

impl Reader<'_> {
    fn statement(&mut self, statement: &str) -> Result<(), String> {
        let mut rest = strip_labels(statement);
        loop {
            let word = rest.split_whitespace().next().unwrap_or("");
            let after = rest[word.len()..].trim_start();
            match word {
                "" => return Ok(()),
                "lock" => self.lock = true,
                "rep" | "repe" | "repz" | "repne" | "repnz" => self.repeat = true,
                "data16" => self.operand_size_prefix = true,
                "bnd" | "notrack" | "ds" | "cs" | "rex" | "rex.w" | "rex64" => {}
                _ if word.starts_with('.') => return self.directive(word, after, statement),
                _ => {
                    if self.in_data > 0 {
                        return Ok(());
                    }
                    let result = self.instruction(word, after, statement);
                    (self.lock, self.repeat, self.operand_size_prefix) = (false, false, false);
                    return result;
                }
            }
            rest = after;
        }
    }

    fn directive(&mut self, word: &str, arguments: &str, statement: &str) -> Result<(), String> {
        match word {
            ".pushsection" => self.in_data += 1,
            ".popsection" | ".previous" => self.in_data = self.in_data.saturating_sub(1),
            _ if self.in_data > 0 => {}
            ".section" => self.in_data += 1,
            ".byte" => match arguments.trim() {
                "0x66" => self.operand_size_prefix = true,
                "0xf0" => self.lock = true,
                "0xf2" | "0xf3" => self.repeat = true,
                "0x2e" | "0x3e" => {}
                _ => return Err(format!("raw bytes `{}`", readable(statement))),
            },
            ".word" | ".short" | ".value" | ".long" | ".int" | ".quad" | ".octa" | ".ascii" | ".asciz"
            | ".string" | ".insn" | ".fill" | ".zero" | ".skip" | ".incbin" | ".macro" | ".rept"
            | ".include" => {
                return Err(format!("raw data `{}`", readable(statement)));
            }
            _ => {}
        }
        Ok(())
    }

    fn instruction(&mut self, mnemonic: &str, arguments: &str, statement: &str) -> Result<(), String> {
        let parts = split_operands(arguments)
            .iter()
            .map(|text| if self.intel { self.intel_part(text) } else { self.att_part(text) })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|why| format!("{why} in `{}`", readable(statement)))?;
        if let Some(flush) = self.flush(mnemonic) {
            return self.flush_item(flush, &parts, statement);
        }
        match mnemonic {
            "sfence" => return self.effect(Effect::Sfence),
            "mfence" => return self.effect(Effect::Mfence),
            "lfence" | "nop" if !self.repeat => return Ok(()),
            "pause" => return self.effect(Effect::Pause),
            "nop" => return self.effect(Effect::Pause),
            _ => {}
        }
        self.computes = true;
        if mnemonic.starts_with('j') || mnemonic.starts_with("loop") {
            self.jumps = true;
            return Ok(());
        }
        if is_opaque(mnemonic, parts.len(), self.repeat) {
            return Err(format!("instruction `{}`", readable(statement)));
        }
        if mnemonic.starts_with("lea") || mnemonic.starts_with("prefetch") || mnemonic.starts_with("nop") {
            self.note_written(&parts);
            return Ok(());
        }
        self.accesses(mnemonic, &parts, statement)?;
        self.note_written(&parts);
        Ok(())
    }

    fn flush(&self, mnemonic: &str) -> Option<Flush> {
        match (mnemonic, self.operand_size_prefix) {
            ("clflush", false) => Some(Flush::Clflush),
            ("clflush", true) | ("clflushopt", _) => Some(Flush::Clflushopt),
            ("xsaveopt", true) | ("clwb", _) => Some(Flush::Clwb),
            _ => None,
        }
    }

    fn flush_item(&mut self, flush: Flush, parts: &[Part], statement: &str) -> Result<(), String> {
        match parts {
            [Part::Memory(address, _)] => {
                self.check_not_written(address, statement)?;
                self.effect(Effect::Flush(flush, address.clone()))
            }
            // Rust's `clwb [{0}]` apart, a register operand is often written without parentheses by
            // mistake; assemblers refuse that, so it does not get here.
            [Part::Elsewhere] => Ok(()),
            _ => Err(format!("operand of `{}`", readable(statement))),
        }
    }

    fn effect(&mut self, effect: Effect) -> Result<(), String> {
        self.items.push(Item::Effect(effect));
        Ok(())
    }

    fn accesses(&mut self, mnemonic: &str, parts: &[Part], statement: &str) -> Result<(), String> {
        let exchange = mnemonic.starts_with("xchg");
        let touches_memory = parts.iter().any(|p| matches!(p, Part::Memory(..) | Part::Elsewhere));
        let locked = self.lock || (exchange && touches_memory);
        let destination = if self.intel { 0 } else { parts.len().saturating_sub(1) };
        for (position, part) in parts.iter().enumerate() {
            let Part::Memory(address, written_size) = part else { continue };
            self.check_not_written(address, statement)?;
            let mut flags = direction(mnemonic, position == destination, parts.len() == 1);
            if exchange || mnemonic.starts_with("xadd") {
                flags = READ | WRITE;
            }
            if locked {
                flags |= LOCKED;
            }
            if mnemonic.contains("movnt") && flags & WRITE != 0 {
                flags |= NONTEMPORAL;
            }
            let known = (*written_size).or_else(|| access_bytes(mnemonic, parts, self.intel));
            let is_operand = matches!(address, Address::Memory { displacement: 0, .. });
            if known.is_none() && !is_operand {
                return Err(format!("how much memory `{}` touches", readable(statement)));
            }
            let bit_string = mnemonic.starts_with("bt") && !parts.contains(&Part::Immediate);
            if bit_string {
                return Err(format!("bit string access `{}`", readable(statement)));
            }
            let access = Access { address: address.clone(), bytes: known, flags };
            self.items.push(Item::Access(access));
        }
        // A locked instruction on the stack is a common way to write a full fence.
        if locked && !parts.iter().any(|p| matches!(p, Part::Memory(..))) {
            self.items.push(Item::Effect(Effect::Mfence));
        }
        Ok(())
    }

    /// The destination, and for exchanges everything, holds something else from now on.
    fn note_written(&mut self, parts: &[Part]) {
        for part in parts {
            if matches!(part, Part::Register(..) | Part::Value(..)) {
                let is_destination = if self.intel { parts.first() } else { parts.last() } == Some(part);
                if is_destination {
                    self.written.push(part.clone());
                }
            }
        }
    }

    fn check_not_written(&self, address: &Address, statement: &str) -> Result<(), String> {
        let Address::Computed { base, index, .. } = address else { return Ok(()) };
        let changed = [*base, *index].into_iter().flatten().any(|operand| {
            self.written.iter().any(|part| match part {
                Part::Value(number, _) => same_place(self.operands, *number, operand),
                Part::Register(name, _) => self.operands[operand].register.as_ref() == Some(name),
                _ => false,
            })
        });
        if changed || self.jumps {
            return Err(format!("an address computed on the way to `{}`", readable(statement)));
        }
        Ok(())
    }

    fn finish(self) -> Result<Summary, String> {
        let is_access = |item: &Item| matches!(item, Item::Access(_));
        let first = self.items.iter().position(is_access).unwrap_or(self.items.len());
        let last = self.items.iter().rposition(is_access);
        let mut summary = Summary { only_effects: !self.computes && last.is_none(), ..Summary::default() };
        for (position, item) in self.items.into_iter().enumerate() {
            match item {
                Item::Access(access) => summary.accesses.push(access),
                Item::Effect(effect) if position < first => summary.before.push(effect),
                Item::Effect(effect) if Some(position) > last => summary.after.push(effect),
                Item::Effect(_) => return Err("a flush or fence between two accesses".into()),
            }
        }
        let jumps_over_effects = self.jumps && !(summary.before.is_empty() && summary.after.is_empty());
        if jumps_over_effects {
            return Err("a flush or fence that may be jumped over".into());
        }
        Ok(summary)
    }

    fn operand_part(&self, text: &str) -> Result<Option<Part>, String> {
        let Some((before, number, modifier, after)) = find_operand(text) else { return Ok(None) };
        let Some(operand) = self.operands.get(number) else {
            return Err(format!("operand {number} that does not exist"));
        };
        let displacement = displacement(before).zip(displacement(after)).map(|(a, b)| a + b);
        if operand.memory {
            let displacement = displacement.ok_or("an address")?;
            return Ok(Some(Part::Memory(Address::Memory { operand: number, displacement }, None)));
        }
        if modifier == Some('a') {
            let displacement = displacement.ok_or("an address")?;
            let address = Address::Computed { base: Some(number), index: None, scale: 1, displacement };
            return Ok(Some(Part::Memory(address, None)));
        }
        Ok(Some(Part::Value(number, self.value_bytes(number, modifier))))
    }

    fn value_bytes(&self, operand: usize, modifier: Option<char>) -> Option<u32> {
        match modifier {
            Some('b' | 'h') => Some(1),
            Some('w') => Some(2),
            Some('k' | 'e') => Some(4),
            Some('q' | 'r') => Some(8),
            Some('x') => Some(16),
            Some('t' | 'y') => Some(32),
            Some('g' | 'z') => Some(64),
            _ => self.sizes.get(operand).copied().flatten(),
        }
    }

    fn att_part(&self, text: &str) -> Result<Part, String> {
        if let Some(open) = text.find('(') {
            return self.att_memory(text, open);
        }
        if let Some(part) = self.operand_part(text)? {
            return Ok(part);
        }
        if let Some(name) = text.strip_prefix('%') {
            if name.contains(':') {
                return Ok(Part::Elsewhere);
            }
            return Ok(Part::Register(full_register(name).to_owned(), register_bytes(name)));
        }
        Ok(if text.starts_with('$') { Part::Immediate } else { Part::Elsewhere })
    }

    fn att_memory(&self, text: &str, open: usize) -> Result<Part, String> {
        let before = text[..open].trim();
        let inside = text[open + 1..].trim_end().strip_suffix(')').ok_or("unbalanced parentheses")?;
        if before.starts_with("%fs") || before.starts_with("%gs") {
            return Ok(Part::Elsewhere);
        }
        let fields: Vec<&str> = inside.split(',').map(str::trim).collect();
        let is = |name: &str| fields[0].trim_start_matches('%') == name;
        if is("rip") || is("rsp") || is("rbp") {
            return Ok(Part::Elsewhere);
        }
        let register = |text: &str| -> Result<Option<usize>, String> {
            if text.is_empty() {
                Ok(None)
            } else {
                self.address_register(text.trim_start_matches('%')).map(Some)
            }
        };
        let base = register(fields[0])?;
        let index = register(fields.get(1).copied().unwrap_or(""))?;
        let scale = fields.get(2).map_or(Ok(1), |s| s.parse()).map_err(|_| "a scale")?;
        let displacement = displacement(before).ok_or("an address")?;
        Ok(Part::Memory(Address::Computed { base, index, scale, displacement }, None))
    }

    fn intel_part(&self, text: &str) -> Result<Part, String> {
        let size = intel_size(text);
        let bare = text.rsplit("ptr ").next().unwrap_or(text).trim();
        if bare.starts_with("fs:") || bare.starts_with("gs:") {
            return Ok(Part::Elsewhere);
        }
        if let Some(open) = bare.find('[') {
            let inside = bare[open + 1..].trim_end().strip_suffix(']').ok_or("unbalanced brackets")?;
            if !bare[..open].trim().is_empty() {
                // `symbol[rip]`
                return Ok(Part::Elsewhere);
            }
            return self.intel_memory(inside, size);
        }
        if let Some(part) = self.operand_part(bare)? {
            return Ok(match part {
                Part::Memory(address, None) => Part::Memory(address, size),
                other => other,
            });
        }
        if register_bytes(bare).is_some() {
            return Ok(Part::Register(full_register(bare).to_owned(), register_bytes(bare)));
        }
        Ok(if parse_number(bare).is_some() { Part::Immediate } else { Part::Elsewhere })
    }

    fn intel_memory(&self, inside: &str, size: Option<u32>) -> Result<Part, String> {
        let (mut base, mut index, mut scale, mut displacement) = (None, None, 1, 0);
        let signed = inside.replace('-', "+-");
        for term in signed.split('+').map(str::trim).filter(|t| !t.is_empty()) {
            if let Some(number) = parse_number(term) {
                displacement += number;
            } else if let Some((left, right)) = term.split_once('*') {
                let (register, factor) =
                    if parse_number(left.trim()).is_some() { (right, left) } else { (left, right) };
                index = Some(self.address_register(register.trim())?);
                scale = parse_number(factor.trim()).and_then(|n| u8::try_from(n).ok()).ok_or("a scale")?;
            } else if matches!(term, "rip" | "rsp" | "rbp") {
                return Ok(Part::Elsewhere);
            } else {
                let operand = self.address_register(term)?;
                if base.is_none() { base = Some(operand) } else { index = Some(operand) }
            }
        }
        if base.is_none() && index.is_none() {
            return Ok(Part::Elsewhere);
        }
        Ok(Part::Memory(Address::Computed { base, index, scale, displacement }, size))
    }

    /// The operand that holds an address, given by number or by the register it is bound to.
    fn address_register(&self, text: &str) -> Result<usize, String> {
        if let Some(("", number, _, "")) = find_operand(text) {
            let operand = self.operands.get(number).ok_or("an operand that does not exist")?;
            if operand.memory {
                return Err("a memory operand used as a register".into());
            }
            return Ok(number);
        }
        let name = full_register(text);
        // The input wins over an output bound to the same register: it is what the address is made of.
        let bound = |o: &Operand| o.register.as_deref() == Some(name);
        let input = self.operands.iter().position(|o| bound(o) && !o.output);
        input
            .or_else(|| self.operands.iter().position(bound))
            .ok_or_else(|| format!("an address in `{text}`, which is no operand,"))
    }
}

/// Whether two operands share a register.
fn same_place(operands: &[Operand], a: usize, b: usize) -> bool {
    let home = |n: usize| operands[n].tied.unwrap_or(n);
    home(a) == home(b) || (operands[a].register.is_some() && operands[a].register == operands[b].register)
}

/// Text before an operand, its number, its modifier, text after it.
fn find_operand(text: &str) -> Option<(&str, usize, Option<char>, &str)> {
    let start = text.find(MARK)?;
    let end = start + text[start..].find(END)?;
    let inside = &text[start + 1..end];
    let (number, modifier) = inside.split_once(MODIFIER).unwrap_or((inside, ""));
    Some((text[..start].trim(), number.parse().ok()?, modifier.chars().next(), text[end + 1..].trim()))
}

/// A constant distance; nothing is 0.
fn displacement(text: &str) -> Option<i64> {
    let text = text.trim().trim_end_matches('+').trim_start_matches('+').trim();
    if text.is_empty() { Some(0) } else { parse_number(text) }
}

fn parse_number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits.trim()),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

fn split_operands(arguments: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut depth = 0;
    for c in arguments.chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            all.push(String::new());
        } else if let Some(last) = all.last_mut() {
            last.push(c);
        }
    }
    all.iter().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()
}

fn readable(statement: &str) -> String {
    let mut out = String::new();
    let mut skipping = false;
    for c in statement.chars() {
        match c {
            MARK => out.push('%'),
            MODIFIER => skipping = true,
            END => skipping = false,
            c if !skipping => out.push(c),
            _ => {}
        }
    }
    out
}

/// Instructions that touch memory in ways the text does not show, or leave the statement.
fn is_opaque(mnemonic: &str, operand_count: usize, repeat: bool) -> bool {
    let string_operation = ["movs", "stos", "lods", "scas", "cmps", "ins", "outs"].iter().any(|s| {
        mnemonic.strip_prefix(s).is_some_and(|size| matches!(size, "" | "b" | "w" | "l" | "d" | "q"))
    });
    if string_operation && (operand_count == 0 || repeat) {
        return true;
    }
    let prefixes = [
        "call",
        "syscall",
        "sysenter",
        "sysret",
        "ret",
        "iret",
        "xsave",
        "xrstor",
        "fxsave",
        "fxrstor",
        "xbegin",
        "xend",
        "xabort",
        "maskmov",
        "vmaskmovdqu",
        "clzero",
        "movdir64b",
        "enqcmd",
        "gather",
        "vgather",
        "vpgather",
        "vscatter",
        "vpscatter",
        "vpcompress",
        "vcompress",
        "vpexpand",
        "vexpand",
        "xlat",
    ];
    mnemonic == "int" || prefixes.iter().any(|prefix| mnemonic.starts_with(prefix))
}

fn direction(mnemonic: &str, is_destination: bool, alone: bool) -> u32 {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| mnemonic.starts_with(p));
    if starts(&["cmpxchg"]) {
        return READ | WRITE;
    }
    if starts(&[
        "cmp", "test", "ucomi", "comi", "vucomi", "vcomi", "ptest", "vptest", "ldmxcsr", "fld", "fild",
    ]) || mnemonic == "bt"
    {
        return READ;
    }
    if !is_destination && !alone {
        return READ;
    }
    if starts(&["mov", "vmov", "set", "stmxcsr", "fst", "fist", "pop", "pextr", "vpextr", "vextract"]) {
        return WRITE;
    }
    if starts(&["push", "mul", "div", "idiv"]) {
        return READ;
    }
    READ | WRITE
}

/// Bytes of memory an instruction touches, from its name and its other operands.
fn access_bytes(mnemonic: &str, parts: &[Part], intel: bool) -> Option<u32> {
    match mnemonic {
        "cmpxchg8b" | "movhps" | "movlps" | "movhpd" | "movlpd" => return Some(8),
        "cmpxchg16b" => return Some(16),
        "movss" | "vmovss" | "movd" | "vmovd" | "ldmxcsr" | "stmxcsr" => return Some(4),
        "vmovsd" => return Some(8),
        "movsd" if parts.len() == 2 => return Some(8),
        "vmovq" => return Some(8),
        "movq" => return Some(8),
        _ => {}
    }
    if mnemonic.starts_with("set") {
        return Some(1);
    }
    let wide = [
        "movdqa", "movdqu", "movaps", "movups", "movapd", "movupd", "movntdq", "movntps", "movntpd", "lddqu",
    ];
    if wide.iter().any(|w| mnemonic.starts_with(w)) {
        return Some(16);
    }
    let register = parts.iter().find_map(|part| match part {
        Part::Register(_, bytes) | Part::Value(_, bytes) => *bytes,
        _ => None,
    });
    if mnemonic.strip_prefix('v').is_some_and(|rest| wide.iter().any(|w| rest.starts_with(w))) {
        return register.filter(|bytes| matches!(bytes, 16 | 32 | 64));
    }
    let general = [
        "mov", "movnti", "add", "sub", "and", "or", "xor", "adc", "sbb", "xadd", "xchg", "cmpxchg", "inc",
        "dec", "neg", "not", "cmp", "test", "bt", "bts", "btr", "btc", "shl", "shr", "sar", "rol", "ror",
    ];
    if general.contains(&mnemonic) {
        return register.filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8));
    }
    if intel {
        return None;
    }
    let suffix = match mnemonic.chars().last()? {
        'b' => 1,
        'w' => 2,
        'l' => 4,
        'q' => 8,
        _ => return None,
    };
    general.contains(&&mnemonic[..mnemonic.len() - 1]).then_some(suffix)
}

fn intel_size(text: &str) -> Option<u32> {
    let word = text.split_whitespace().next()?;
    text.contains("ptr").then_some(())?;
    Some(match word {
        "byte" => 1,
        "word" => 2,
        "dword" => 4,
        "qword" => 8,
        "xmmword" | "oword" => 16,
        "ymmword" => 32,
        "zmmword" => 64,
        _ => return None,
    })
}

/// The 64-bit name of a general register, others unchanged.
fn full_register(name: &str) -> &str {
    match name {
        "a" | "al" | "ah" | "ax" | "eax" | "rax" => "rax",
        "b" | "bl" | "bh" | "bx" | "ebx" | "rbx" => "rbx",
        "c" | "cl" | "ch" | "cx" | "ecx" | "rcx" => "rcx",
        "d" | "dl" | "dh" | "dx" | "edx" | "rdx" => "rdx",
        "si" | "sil" | "esi" | "rsi" => "rsi",
        "di" | "dil" | "edi" | "rdi" => "rdi",
        "bp" | "bpl" | "ebp" | "rbp" => "rbp",
        "sp" | "spl" | "esp" | "rsp" => "rsp",
        _ if name.starts_with('r') => name.trim_end_matches(['b', 'w', 'd']),
        _ => name,
    }
}

fn register_bytes(name: &str) -> Option<u32> {
    if name.starts_with("xmm") {
        return Some(16);
    }
    if name.starts_with("ymm") {
        return Some(32);
    }
    if name.starts_with("zmm") {
        return Some(64);
    }
    if let Some(rest) = name.strip_prefix('r')
        && rest.starts_with(|c: char| c.is_ascii_digit())
    {
        return Some(match rest.chars().last()? {
            'b' => 1,
            'w' => 2,
            'd' => 4,
            _ => 8,
        });
    }
    Some(match name {
        "al" | "ah" | "bl" | "bh" | "cl" | "ch" | "dl" | "dh" | "sil" | "dil" | "bpl" | "spl" => 1,
        "ax" | "bx" | "cx" | "dx" | "si" | "di" | "bp" | "sp" => 2,
        "eax" | "ebx" | "ecx" | "edx" | "esi" | "edi" | "ebp" | "esp" => 4,
        "rax" | "rbx" | "rcx" | "rdx" | "rsi" | "rdi" | "rbp" | "rsp" => 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn att(template: &str, constraints: &str, sizes: &[Option<u32>]) -> Result<Summary, String> {
        read(template, false, &operands(constraints), sizes)
    }

    fn intel(template: &str, constraints: &str, sizes: &[Option<u32>]) -> Result<Summary, String> {
        read(template, true, &operands(constraints), sizes)
    }

    fn memory(operand: usize) -> Address {
        Address::Memory { operand, displacement: 0 }
    }

    fn register(operand: usize, displacement: i64) -> Address {
        Address::Computed { base: Some(operand), index: None, scale: 1, displacement }
    }

    #[test]
    fn flushes_in_every_spelling() {
        let cases = [
            ("clflush $0", Flush::Clflush),
            (".byte 0x66; clflush $0", Flush::Clflushopt),
            (".byte 0x66\n\tclflush $0", Flush::Clflushopt),
            ("clflushopt $0", Flush::Clflushopt),
            ("data16 clflush $0", Flush::Clflushopt),
            (".byte 0x66; xsaveopt $0", Flush::Clwb),
            ("clwb $0", Flush::Clwb),
        ];
        for (template, flush) in cases {
            let summary = att(template, "=*m,*m,~{dirflag}", &[Some(1)]).unwrap();
            assert_eq!(summary.before, [Effect::Flush(flush, memory(0))], "{template}");
            assert!(summary.only_effects);
        }
        let summary = att("clflush ($0)", "r,~{memory}", &[Some(8)]).unwrap();
        assert_eq!(summary.before, [Effect::Flush(Flush::Clflush, register(0, 0))]);
        let summary = att("clwb 64(%rax)", "{ax}", &[Some(8)]).unwrap();
        assert_eq!(summary.before, [Effect::Flush(Flush::Clwb, register(0, 64))]);
        let summary = intel("clwb [${0:q}]", "r,~{memory}", &[Some(8)]).unwrap();
        assert_eq!(summary.before, [Effect::Flush(Flush::Clwb, register(0, 0))]);
    }

    #[test]
    fn fences() {
        assert_eq!(att("sfence", "~{memory}", &[]).unwrap().before, [Effect::Sfence]);
        assert_eq!(att("mfence\n\t", "~{memory}", &[]).unwrap().before, [Effect::Mfence]);
        assert_eq!(att("", "~{memory}", &[]).unwrap(), Summary { only_effects: true, ..Summary::default() });
        assert_eq!(att("rep; nop", "", &[]).unwrap().before, [Effect::Pause]);
        let stack = att("lock; addl $$0,0(%rsp)", "~{memory}", &[]).unwrap();
        assert_eq!(stack.before, [Effect::Mfence]);
        assert!(!stack.only_effects);
    }

    #[test]
    fn locked_instructions() {
        let summary =
            att("lock; xaddq $0,$1", "=r,=*m,0,*m,~{memory}", &[Some(8), Some(8), Some(8), Some(8)]).unwrap();
        let flags = READ | WRITE | LOCKED;
        assert_eq!(summary.accesses, [Access { address: memory(1), bytes: Some(8), flags }]);
        let summary = att("xchgl $0,$1", "=r,=*m,0,*m", &[Some(4); 4]).unwrap();
        assert_eq!(summary.accesses, [Access { address: memory(1), bytes: Some(4), flags }]);
        let summary = intel("lock xadd qword ptr [${1:q}], ${0:q}", "=&r,r,0", &[Some(8); 3]).unwrap();
        assert_eq!(summary.accesses, [Access { address: register(1, 0), bytes: Some(8), flags }]);
        let summary =
            att("lock; cmpxchg16b $1; setz $0", "=q,=*m,*m", &[Some(1), Some(16), Some(16)]).unwrap();
        assert_eq!(summary.accesses, [Access { address: memory(1), bytes: Some(16), flags }]);
    }

    #[test]
    fn stores_through_registers() {
        let summary = att("movnti $0,($1)", "r,r,~{memory}", &[Some(8), Some(8)]).unwrap();
        let nt = Access { address: register(1, 0), bytes: Some(8), flags: WRITE | NONTEMPORAL };
        assert_eq!(summary.accesses, [nt]);
        assert_eq!(intel("movnti [${0:q}], ${1:q}", "r,r", &[Some(8); 2]).unwrap().accesses.len(), 1);
        let summary = intel("mov ${0:k}, [${1:q} + 8]", "=&r,r", &[Some(4), Some(8)]).unwrap();
        let load = Access { address: register(1, 8), bytes: Some(4), flags: READ };
        assert_eq!(summary.accesses, [load]);
        let summary = att("movq $0,(%rdi,%rsi,8)", "r,{di},{si}", &[Some(8); 3]).unwrap();
        let address = Address::Computed { base: Some(1), index: Some(2), scale: 8, displacement: 0 };
        assert_eq!(summary.accesses, [Access { address, bytes: Some(8), flags: WRITE }]);
        let summary = att("movntdq %xmm0,16($0)", "r", &[Some(8)]).unwrap();
        let wide = Access { address: register(0, 16), bytes: Some(16), flags: WRITE | NONTEMPORAL };
        assert_eq!(summary.accesses, [wide]);
    }

    #[test]
    fn dialect_alternatives() {
        let template = "$(movq $$5,$0$|mov $0,5$)";
        assert_eq!(att(template, "=*m", &[Some(8)]).unwrap().accesses[0].flags, WRITE);
        assert_eq!(intel(template, "=*m", &[Some(8)]).unwrap().accesses[0].flags, WRITE);
    }

    #[test]
    fn fences_around_accesses_keep_their_order() {
        let summary = att("sfence; movq $1,$0; mfence", "=*m,r", &[Some(8); 2]).unwrap();
        assert_eq!(summary.before, [Effect::Sfence]);
        assert_eq!(summary.after, [Effect::Mfence]);
        assert!(att("movq $1,$0; sfence; movq $1,$0", "=*m,r", &[Some(8); 2]).is_err());
    }

    #[test]
    fn register_only_code_is_harmless() {
        for template in ["cpuid", "rdtsc", "bsfq $1,$0", "mov %rsp,$0", "movq %fs:0x28,$0", "lea 8($1),$0"] {
            let summary = att(template, "=r,r", &[Some(8); 2]).unwrap();
            assert!(summary.before.is_empty() && summary.accesses.is_empty(), "{template}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let cases = [
            (".byte 0x66, 0x0f, 0xae, 0xf8", "raw bytes"),
            ("rep movsb", "rep movsb"),
            ("syscall", "syscall"),
            ("call foo", "call foo"),
            ("xsaveopt $0", "xsaveopt"),
            ("movq (%rbx),%rax", "which is no operand"),
            ("add $$8,$1; clwb ($1)", "computed on the way"),
            ("1: clwb ($1); jne 1b", "jumped over"),
            ("frob ($1)", "how much memory"),
            ("lock; btsq $1,$0", "bit string"),
        ];
        for (template, expected) in cases {
            let why = att(template, "=*m,r", &[Some(8); 2]).unwrap_err();
            assert!(why.contains(expected), "{template}: {why}");
        }
    }

    #[test]
    fn file_scope_assembly() {
        assert!(!has_instructions(".symver foo_old,foo@V1\n.globl x\n x = 5\nlabel:"));
        assert!(has_instructions("f:\n ret"));
    }
}
