//! Fences, and the dispatch of intrinsics: flushes, block and vector accesses, and what is not understood.

use crashproof_frontend::asm::Given;
use crashproof_protocol::abi::kind;

use crate::instrument::Instrumenter;
use crate::lanes::Lanes;
use crate::sites::What;
use crashproof_frontend::llvm::{Ordering, Value};

/// Intrinsics that take pointers and touch memory as far as LLVM is concerned, but not the memory of the
/// program, or only the va_list, exception or frame data that lives on the stack.
const HARMLESS: [&str; 48] = [
    "llvm.lifetime.",
    "llvm.invariant.",
    "llvm.dbg.",
    "llvm.assume",
    "llvm.prefetch",
    "llvm.objectsize",
    "llvm.stacksave",
    "llvm.stackrestore",
    "llvm.stackprotector",
    "llvm.stackguard",
    "llvm.eh.",
    "llvm.seh.",
    "llvm.ptr.annotation",
    "llvm.var.annotation",
    "llvm.annotation",
    "llvm.codeview.",
    "llvm.launder.",
    "llvm.strip.",
    "llvm.threadlocal.address",
    "llvm.experimental.noalias.scope.decl",
    "llvm.experimental.constrained.",
    "llvm.experimental.guard",
    "llvm.experimental.widenable.",
    "llvm.coro.",
    "llvm.gc",
    "llvm.sponentry",
    "llvm.frameaddress",
    "llvm.returnaddress",
    "llvm.addressofreturnaddress",
    "llvm.local",
    "llvm.read_register",
    "llvm.read_volatile_register",
    "llvm.write_register",
    "llvm.instrprof.",
    "llvm.pseudoprobe",
    "llvm.type.",
    "llvm.public.type.test",
    "llvm.trap",
    "llvm.debugtrap",
    "llvm.ubsantrap",
    "llvm.clear_cache",
    "llvm.fake.use",
    "llvm.donothing",
    "llvm.sideeffect",
    "llvm.x86.cldemote",
    "llvm.x86.sse3.monitor",
    "llvm.x86.umonitor",
    "llvm.x86.prefetch",
];

impl Instrumenter<'_> {
    /// A fence of the language. Weaker ones than sequentially consistent emit no instruction on x86.
    pub(crate) fn fence(&mut self, fence: Value) {
        let full = fence.ordering() == Ordering::LLVMAtomicOrderingSequentiallyConsistent;
        if full && !fence.is_single_thread() {
            self.replace_by_call(fence, "mfence", kind::MFENCE);
        }
    }

    fn replace_by_call(&mut self, instruction: Value, name: &str, kind: u8) {
        let site = self.sites.of(instruction, What { kind, ..What::default() });
        self.builder.before(instruction);
        self.builder.locate(instruction.debug_location());
        self.runtime.call(&self.builder, name, &[site]);
        self.erase(instruction);
    }

    fn flush(&mut self, call: Value, name: &str, kind: u8) {
        let pointer = call.operand(0);
        if self.is_volatile_memory(pointer) {
            return;
        }
        let site = self.sites.of(call, What { kind, ..What::default() });
        let pm = self.is_pm(pointer, call);
        self.divert(call, pm, |this| {
            this.runtime.call(&this.builder, name, &[pointer, site]);
            None
        });
    }

    pub(crate) fn intrinsic(&mut self, call: Value) {
        let name = self.module.intrinsic_name(call);
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        match name.as_str() {
            "llvm.x86.sse2.clflush" => self.flush(call, "clflush", kind::CLFLUSH),
            "llvm.x86.clflushopt" => self.flush(call, "clflushopt", kind::CLFLUSHOPT),
            "llvm.x86.clwb" => self.flush(call, "clwb", kind::CLWB),
            "llvm.x86.sse.sfence" => self.replace_by_call(call, "sfence", kind::SFENCE),
            "llvm.x86.sse2.mfence" => self.replace_by_call(call, "mfence", kind::MFENCE),
            "llvm.x86.sse2.lfence" => {}
            "llvm.x86.sse2.pause" => {
                self.after(call, What { kind: kind::PAUSE, ..What::default() }, |this, site| {
                    let nowhere = this.module.ptr.null();
                    this.runtime.call(&this.builder, "sync", &[nowhere, site]);
                });
            }
            "llvm.x86.rdtsc" | "llvm.readcyclecounter" => self.by_chance(call, &[Given::Clock]),
            "llvm.x86.rdtscp" => self.by_chance(call, &[Given::Clock, Given::Processor]),
            _ if starts(&["llvm.x86.rdrand.", "llvm.x86.rdseed."]) => {
                self.by_chance(call, &[Given::Random, Given::Success]);
            }
            "llvm.x86.sse3.ldu.dq" | "llvm.x86.avx.ldu.dq.256" => self.load_from(call, call.operand(0), 0),
            "llvm.x86.directstore32" | "llvm.x86.directstore64" => self.direct_store(call),
            "llvm.x86.movdir64b" => self.direct_store_line(call),
            _ if starts(&["llvm.x86.movrs", "llvm.x86.avx10.vmovrs"]) => {
                self.load_from(call, call.operand(0), 0);
            }
            _ if starts(&["llvm.memcpy."]) => self.block_copy(call, kind::MEMCPY),
            _ if starts(&["llvm.memmove."]) => self.block_copy(call, kind::MEMMOVE),
            _ if starts(&["llvm.memset."]) => self.block_fill(call),
            _ if starts(&["llvm.masked."]) => self.masked(call, &name),
            _ if starts(&["llvm.x86.avx.maskload.", "llvm.x86.avx2.maskload."]) => {
                let mask = self.sign_mask(call, call.operand(1));
                let lanes = Lanes::Contiguous(call.operand(0));
                self.gather(call, lanes, mask, call.ty().null());
            }
            _ if starts(&["llvm.x86.avx.maskstore.", "llvm.x86.avx2.maskstore."]) => {
                let mask = self.sign_mask(call, call.operand(1));
                let lanes = Lanes::Contiguous(call.operand(0));
                self.scatter(call, call.operand(2), lanes, mask);
            }
            _ if starts(&["llvm.x86.avx2.gather."]) => self.gather_indexed(call),
            // Nobody keeps a va_list in PM, so this is checked but not worth a warning.
            _ if starts(&["llvm.va_"]) => self.other_intrinsic(call, &name, true),
            _ if starts(&HARMLESS) => {}
            _ => self.other_intrinsic(call, &name, false),
        }
    }

    fn masked(&mut self, call: Value, name: &str) {
        let argument = |index| call.operand(index);
        match name.split('.').nth(2) {
            Some("load") => self.gather(call, Lanes::Contiguous(argument(0)), argument(1), argument(2)),
            Some("expandload") => self.gather(call, Lanes::Compressed(argument(0)), argument(1), argument(2)),
            Some("gather") => self.gather(call, Lanes::Scattered(argument(0)), argument(1), argument(2)),
            Some("store") => self.scatter(call, argument(0), Lanes::Contiguous(argument(1)), argument(2)),
            Some("compressstore") => {
                self.scatter(call, argument(0), Lanes::Compressed(argument(1)), argument(2));
            }
            Some("scatter") => self.scatter(call, argument(0), Lanes::Scattered(argument(1)), argument(2)),
            _ => self.other_intrinsic(call, name, false),
        }
    }

    /// An intrinsic nothing is known about: harmless if it touches no memory or is given none in PM.
    fn other_intrinsic(&mut self, call: Value, name: &str, quiet: bool) {
        if !call.touches_memory() {
            return;
        }
        let pointers: Vec<Value> =
            (0..call.argument_count()).map(|i| call.operand(i)).filter(|v| v.ty().is_pointer()).collect();
        if !pointers.is_empty() {
            self.unknown_if_pm(call, &pointers, name, quiet);
        }
    }

    /// Tells the runtime if an instruction that is not understood is given PM. Without pointers it is
    /// told in any case.
    pub(crate) fn unknown_if_pm(&mut self, instruction: Value, pointers: &[Value], name: &str, quiet: bool) {
        let suspects: Vec<Value> =
            pointers.iter().copied().filter(|p| !self.is_volatile_memory(*p)).collect();
        if suspects.is_empty() && !pointers.is_empty() {
            return;
        }
        let what = What { kind: kind::UNKNOWN, text: Some(name), ..What::default() };
        let site = self.sites.of(instruction, what);
        if !quiet {
            let message = format!("{name} is not understood; on PM it makes the verdict UNKNOWN");
            self.warn(instruction, &message);
        }
        if suspects.is_empty() {
            self.builder.before(instruction);
            self.builder.locate(instruction.debug_location());
            let nowhere = self.module.ptr.null();
            self.runtime.call(&self.builder, "unknown", &[nowhere, site]);
        }
        for pointer in suspects {
            let pm = self.is_pm(pointer, instruction);
            let rare = instruction.split_then(pm);
            self.builder.before(rare);
            self.builder.locate(instruction.debug_location());
            self.runtime.call(&self.builder, "unknown", &[pointer, site]);
        }
    }
}
