//! System calls with PM arguments that bypass the interposed functions of the C library.
//!
//! The kernel cannot access the window: a raw `syscall` instruction, or a C library function the runtime does not know,
//! would fail with EFAULT, which would look like a failure of the program. A seccomp filter stops calls whose arguments
//! lie in the window, whoever makes them. Calls the runtime knows are handled as if made through the C library; others
//! are made with the alias, and the verdict says so.
//!
//! The runtime's own calls pass the filter, which knows the address of their instruction. Programs started by this one
//! inherit the filter, but have no addresses in the window.

use std::ffi::{c_int, c_long, c_void};
use std::mem::offset_of;

use crashproof_protocol::abi::is_pm;
use crashproof_protocol::reason;

use super::announced::is_announced;
use super::instruction::register;
use crate::pthreads::futex;
use crate::recorder::unknown;
use crate::system::{KeptErrno, raw_syscall};
use crate::{callers, signals};

/// The data that the kernel passes to the filter.
#[repr(C)]
struct CallData {
    number: c_int,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

const LOW: usize = 0;
const HIGH: usize = 4;
/// The upper half of a window address, without its low bits.
const WINDOW: u32 = 1 << 12;
const BELOW_WINDOW: u32 = !(WINDOW - 1);
const X86_64: u32 = 0xc000_003e;
/// The most filter instructions.
const STEPS: usize = 80;

/// Filter instructions that check one argument.
const STEPS_OF_ARGUMENT: usize = 4;

/// Calls that the C library makes while it blocks all signals: around `fork`, `posix_spawn` and `raise`, and at both
/// ends of a thread. Registers beyond their arguments may still hold a window address, and no handler could run to find
/// that out, so the filter itself ignores those registers.
const WITHOUT_SIGNALS: [c_long; 15] = [
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_munmap,
    libc::SYS_close,
    libc::SYS_dup2,
    libc::SYS_execve,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// A filter in the kernel's format.
struct Filter {
    steps: [libc::sock_filter; STEPS],
    count: usize,
}

impl Filter {
    fn add(&mut self, code: u32, value: u32, if_true: u8, if_false: u8) {
        self.steps[self.count] = libc::sock_filter { code: code as u16, jt: if_true, jf: if_false, k: value };
        self.count += 1;
    }

    fn load(&mut self, offset: usize) {
        self.add(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset as u32, 0, 0);
    }

    /// Skips this many instructions, depending on a comparison with the loaded value.
    fn jump(&mut self, how: u32, value: u32, if_true: u8, if_false: u8) {
        self.add(libc::BPF_JMP | how | libc::BPF_K, value, if_true, if_false);
    }

    fn end(&mut self, action: u32) {
        self.add(libc::BPF_RET | libc::BPF_K, action, 0, 0);
    }

    fn new(runtime: (usize, usize)) -> Filter {
        let nothing = libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
        let mut filter = Filter { steps: [nothing; STEPS], count: 0 };
        filter.load(offset_of!(CallData, architecture));
        filter.jump(libc::BPF_JEQ, X86_64, 1, 0);
        filter.end(libc::SECCOMP_RET_ALLOW);
        // Calls a handler must not make, none of which takes addresses the program could mean.
        filter.load(offset_of!(CallData, number));
        for number in
            [libc::SYS_rt_sigreturn, libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3]
        {
            filter.jump(libc::BPF_JEQ, number as u32, 0, 1);
            filter.end(libc::SECCOMP_RET_ALLOW);
        }
        let (begin, end) = runtime;
        if begin >> 32 == end >> 32 {
            filter.load(offset_of!(CallData, instruction) + HIGH);
            filter.jump(libc::BPF_JEQ, (begin >> 32) as u32, 0, 4);
            filter.load(offset_of!(CallData, instruction) + LOW);
            filter.jump(libc::BPF_JGE, begin as u32, 0, 2);
            filter.jump(libc::BPF_JGE, end as u32, 1, 0);
            filter.end(libc::SECCOMP_RET_ALLOW);
        }
        filter.load(offset_of!(CallData, number));
        for (index, number) in WITHOUT_SIGNALS.into_iter().enumerate() {
            let others = WITHOUT_SIGNALS.len() - 1 - index;
            let left_over = 6 - arguments(number);
            filter.jump(libc::BPF_JEQ, number as u32, (others + left_over * STEPS_OF_ARGUMENT) as u8, 0);
        }
        for argument in (0..6).rev() {
            filter.load(offset_of!(CallData, arguments) + 8 * argument + HIGH);
            filter.add(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, BELOW_WINDOW, 0, 0);
            filter.jump(libc::BPF_JEQ, WINDOW, 0, 1);
            filter.end(libc::SECCOMP_RET_TRAP);
        }
        filter.end(libc::SECCOMP_RET_ALLOW);
        filter
    }
}

/// Called once, before children are forked. If the kernel does not support filters, calls with PM fail as they would
/// anyway.
pub(crate) fn prepare() {
    const SET_MODE_FILTER: usize = 1;
    const ALLOW_SPECULATION: usize = 1 << 2;
    let mut filter = Filter::new(callers::runtime_code());
    let program = libc::sock_fprog { len: filter.count as u16, filter: filter.steps.as_mut_ptr() };
    // SAFETY: all-zero bytes are valid plain data; the handler is for this signal; the kernel only reads the filter.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_call as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
        signals::set_action(libc::SIGSYS, &raw const action, std::ptr::null_mut());
        let set = || {
            let arguments = [SET_MODE_FILTER, ALLOW_SPECULATION, &raw const program as usize, 0, 0, 0];
            raw_syscall(libc::SYS_seccomp, arguments)
        };
        if set() != 0 {
            raw_syscall(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0]);
            set();
        }
    }
}

/// The number of a call's arguments: other registers hold leftovers.
fn arguments(number: c_long) -> usize {
    /// For the first calls, by number.
    const FIRST: &[u8; 134] = b"333122233632144034433215053333331202213043336\
        633232334555003142133412453321122321122122123\
        22333122211403011002000222233331111222432223";
    if let Some(count) = usize::try_from(number).ok().and_then(|number| FIRST.get(number)) {
        return usize::from(count.saturating_sub(b'0'));
    }
    match number {
        libc::SYS_gettid => 0,
        libc::SYS_exit_group | libc::SYS_set_tid_address | libc::SYS_epoll_create1 => 1,
        libc::SYS_arch_prctl
        | libc::SYS_clock_gettime
        | libc::SYS_clock_getres
        | libc::SYS_clock_settime
        | libc::SYS_set_robust_list
        | libc::SYS_eventfd2
        | libc::SYS_pipe2
        | libc::SYS_memfd_create
        | libc::SYS_inotify_init1 => 2,
        libc::SYS_sched_setaffinity
        | libc::SYS_sched_getaffinity
        | libc::SYS_getdents64
        | libc::SYS_unlinkat
        | libc::SYS_mkdirat
        | libc::SYS_fchmodat
        | libc::SYS_faccessat
        | libc::SYS_dup3
        | libc::SYS_getcpu
        | libc::SYS_getrandom
        | libc::SYS_tgkill
        | libc::SYS_membarrier => 3,
        libc::SYS_clock_nanosleep
        | libc::SYS_epoll_wait
        | libc::SYS_epoll_ctl
        | libc::SYS_openat
        | libc::SYS_newfstatat
        | libc::SYS_renameat
        | libc::SYS_readlinkat
        | libc::SYS_utimensat
        | libc::SYS_fallocate
        | libc::SYS_accept4
        | libc::SYS_prlimit64
        | libc::SYS_rseq
        | libc::SYS_faccessat2 => 4,
        libc::SYS_prctl | libc::SYS_ppoll | libc::SYS_renameat2 | libc::SYS_statx => 5,
        _ => 6,
    }
}

/// Does the runtime follow a call's accesses to PM?
fn is_followed(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_futex
            | libc::SYS_getrandom
            | libc::SYS_clock_gettime
            | libc::SYS_msync
            | libc::SYS_munmap
    )
}

/// Handles a call that the filter stopped.
pub(crate) unsafe extern "C" fn on_call(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    // SAFETY: the kernel passes valid pointers to both; the program vouches for its call.
    unsafe {
        let machine = &mut *context.cast::<libc::ucontext_t>();
        let number = *register(machine, libc::REG_RAX);
        let registers =
            [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];
        let given = registers.map(|which| *register(machine, which) as usize);
        if (*info).si_code <= 0 || !given.iter().any(|argument| is_pm(*argument as u64)) {
            return signals::pass_on(signal, info, context);
        }
        let means_pm = given[..arguments(number).min(6)].iter().any(|argument| is_pm(*argument as u64));
        let result = if !means_pm {
            raw_syscall(number, given)
        } else if is_announced() {
            raw_syscall(number, futex::reachable(number, given))
        } else {
            let _call = callers::Call::new(*register(machine, libc::REG_RIP) as usize);
            if !is_followed(number) {
                unknown(reason::SYSTEM_CALL, callers::call_site());
            }
            futex::call(number, given)
        };
        *register(machine, libc::REG_RAX) = result as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_so_many_arguments() {
        for (number, count) in [
            (libc::SYS_read, 3),
            (libc::SYS_close, 1),
            (libc::SYS_mmap, 6),
            (libc::SYS_getpid, 0),
            (libc::SYS_sendto, 6),
            (libc::SYS_wait4, 4),
            (libc::SYS_fsync, 1),
            (libc::SYS_getcwd, 2),
            (libc::SYS_readlink, 3),
            (libc::SYS_gettimeofday, 2),
            (libc::SYS_getuid, 0),
            (libc::SYS_getppid, 0),
            (libc::SYS_capget, 2),
            (libc::SYS_sigaltstack, 2),
            (libc::SYS_mknod, 3),
            (libc::SYS_futex, 6),
        ] {
            assert_eq!(arguments(number), count, "{number}");
        }
    }

    /// The filter's decision about a call.
    fn action(filter: &Filter, call: &CallData) -> u32 {
        let word = |offset: usize| {
            let halves = |at: u64, offset: usize| if offset == LOW { at as u32 } else { (at >> 32) as u32 };
            match offset {
                0 => call.number as u32,
                4 => call.architecture,
                8 | 12 => halves(call.instruction, offset - 8),
                _ => halves(call.arguments[(offset - 16) / 8], (offset - 16) % 8),
            }
        };
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = filter.steps[at];
            let (code, value) = (u32::from(step.code), step.k);
            let condition = match code & 0xf0 {
                libc::BPF_JGE => loaded >= value,
                _ => loaded == value,
            };
            at += 1;
            match code & 0x07 {
                libc::BPF_LD => loaded = word(value as usize),
                libc::BPF_ALU => loaded &= value,
                libc::BPF_JMP => at += usize::from(if condition { step.jt } else { step.jf }),
                _ => return value,
            }
        }
    }

    #[test]
    fn what_is_left_over_in_registers_passes_where_no_handler_could_run() {
        let filter = Filter::new((0x7f00_0000_1000, 0x7f00_0010_0000));
        let given = |number: c_long, argument: usize, instruction| {
            let mut arguments = [0; 6];
            arguments[argument] = 1 << 44 | 0x40;
            let call = CallData { number: number as c_int, architecture: X86_64, instruction, arguments };
            action(&filter, &call)
        };
        for number in WITHOUT_SIGNALS.into_iter().chain([libc::SYS_sendto]) {
            for argument in 0..6 {
                let meant = argument < arguments(number);
                let expected = if meant { libc::SECCOMP_RET_TRAP } else { libc::SECCOMP_RET_ALLOW };
                assert_eq!(given(number, argument, 0x1000), expected, "{number}, {argument}");
                assert_eq!(given(number, argument, 0x7f00_0000_2000), libc::SECCOMP_RET_ALLOW);
            }
        }
    }

    #[test]
    fn the_filter_fits() {
        let filter = Filter::new((0x7f00_0000_1000, 0x7f00_0010_0000));
        assert!(filter.count <= STEPS);
        assert!(filter.steps[..filter.count].iter().any(|step| step.k == libc::SECCOMP_RET_TRAP));
    }
}
