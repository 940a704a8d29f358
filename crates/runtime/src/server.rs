//! Parks the program before the first of its constructors, and forks a child per command.
//!
//! Programs open their pools in constructors, too, so every child runs them. But all modules must have registered
//! first: the plugin gives each module a constructor for that, and a second one that runs after those of all modules
//! linked together. If only libraries are instrumented, the program is parked just before `main`: the runtime
//! interposes `__libc_start_main` and passes its own `main` in place of the program's.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::{PARKED, RUN, fd};

use crate::c_library::processors;
use crate::cell::RunningThreadCell;
use crate::pthreads::create::note_early_threads;
use crate::real::Real;
use crate::session::{ENVIRONMENT_NAME, control, under_checker};
use crate::system::{errno, give_up, raw_syscall};
use crate::threads::turns;
use crate::{
    callers, clone, direct_end, endless, faults, follow, globals, modules, own_memory, prefault, process,
    raw, real, session, settled, sites, stacks,
};

/// [`fd::INPUT`] as a path.
const INPUT_PATH: &CStr = c"/proc/self/fd/206";
const _: () = assert!(fd::INPUT == 206);

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type StartMain = unsafe extern "C" fn(
    Main,
    c_int,
    *mut *mut c_char,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

static PROGRAM_MAIN: RunningThreadCell<Option<Main>> = RunningThreadCell::new(None);

/// Runs before the constructors of any module linked against the runtime.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static START: extern "C" fn() = {
    extern "C" fn start() {
        session::start();
    }
    start
};

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: *mut c_void,
    fini: *mut c_void,
    rtld_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    static REAL: Real = Real::new("__libc_start_main\0", None);
    PROGRAM_MAIN.set(Some(main));
    callers::note_main(main as *const () as usize);
    // SAFETY: the symbol has this type; the arguments are those of program start.
    unsafe {
        let real: StartMain = std::mem::transmute(REAL.get());
        real(our_main, argc, argv, init, fini, rtld_fini, stack_end)
    }
}

unsafe extern "C" fn our_main(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int {
    if is_to_park() {
        park();
    }
    match PROGRAM_MAIN.get() {
        Some(main) => {
            // SAFETY: the C library passes what the program's function wants.
            let status = unsafe { main(argc, argv, envp) };
            direct_end::ends_with(status);
            process::end_early();
            status
        }
        None => give_up("main is missing"),
    }
}

/// All modules linked together with this one have registered.
pub(crate) fn registered(module: *const c_void) {
    // SAFETY: a query without side effects.
    let program = || unsafe { libc::getauxval(libc::AT_PHDR) as *const c_void };
    // Every module calls this in every child, where the lookup would cost as much as a recovery.
    if is_to_park() && modules::linked_together(module, program()) {
        park();
    }
}

/// Was the program parked before? Children resume from there.
static PARKED_BEFORE: AtomicBool = AtomicBool::new(false);

fn is_to_park() -> bool {
    under_checker() && !PARKED_BEFORE.load(Relaxed)
}

/// Serves commands forever; returns in the children.
fn park() {
    PARKED_BEFORE.store(true, Relaxed);
    faults::prepare();
    let sites_bytes = sites::write_table();
    prefault::prepare();
    process::prepare_parent();
    prepare_descriptors();
    real::share_what_is_found();
    processors::note_usable();
    endless::prepare();
    follow::prepare();
    turns::prepare();
    clone::prepare();
    control(|control| {
        control.modules = modules::count();
        control.pm_used = u32::from(globals::any());
        control.sites_bytes = sites_bytes;
    });
    session::inherit_control();
    direct_end::prepare();
    faults::handle_signals();
    follow::take_signals();
    own_memory::settle();
    settled::settle_stack();
    send(&[PARKED]);
    while receive() == Some(RUN) {
        session::find_trace();
        process::limit_what_children_inherit();
        real::find_what_children_found();
        follow::prepare_child();
        prefault::prepare_child();
        // SAFETY: the process has one thread.
        let child = unsafe { clone::fork() };
        if child < 0 {
            give_up("cannot fork");
        }
        if child == 0 {
            become_child();
            return;
        }
        // The checker needs it only if the child takes long, and is not woken for it.
        control(|control| control.child = child);
        let mut status = 0;
        // SAFETY: the kernel writes the status and the child's resource usage. Everything the child started ends with
        // it.
        let used = unsafe {
            let mut used: libc::rusage = std::mem::zeroed();
            while libc::wait4(child, &raw mut status, 0, &raw mut used) < 0 && errno() == libc::EINTR {}
            status = process::seen_by_limit(status, &used);
            process::wait_for_forked();
            status = process::ended_by_child(status);
            raw_syscall(libc::SYS_kill, [-child as usize, libc::SIGKILL as usize, 0, 0, 0, 0]);
            used
        };
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
            endless::note_ended(&used);
        }
        process::end_orphans();
        process::note_ending(status);
        send(&status.to_le_bytes());
    }
    // The checker is gone.
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

fn receive() -> Option<u8> {
    let mut command = 0u8;
    // SAFETY: the kernel writes one byte.
    (unsafe { libc::read(fd::COMMAND, (&raw mut command).cast(), 1) } == 1).then_some(command)
}

fn send(bytes: &[u8]) {
    // SAFETY: the kernel only reads the bytes; if the checker is gone, the process ends.
    unsafe {
        if libc::write(fd::COMMAND, bytes.as_ptr().cast(), bytes.len()) != bytes.len() as isize {
            libc::_exit(0);
        }
    }
}

/// Do the children have standard input?
static HAS_INPUT: AtomicBool = AtomicBool::new(false);

/// Sets up the descriptors for the children in the parent, once.
fn prepare_descriptors() {
    // SAFETY: descriptors of this process, in which no code of the program runs yet.
    unsafe {
        HAS_INPUT.store(libc::fcntl(fd::INPUT, libc::F_GETFD) >= 0, Relaxed);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
        libc::dup2(nothing, 0);
        libc::close(nothing);
        libc::dup2(fd::OUTPUT, 1);
        libc::dup2(fd::OUTPUT, 2);
        // Programs started by this one do not concern the checker.
        for name in [ENVIRONMENT_NAME, c"LD_BIND_NOW"] {
            libc::unsetenv(name.as_ptr());
        }
        forget_preload();
        // The mappings remain; the descriptors would only get in the program's way. That of the image tells which parts
        // of it were ever written.
        libc::fcntl(fd::IMAGE, libc::F_SETFD, libc::FD_CLOEXEC);
        for descriptor in [fd::CONTROL, fd::TRACE, fd::SITES, fd::OUTPUT] {
            libc::close(descriptor);
        }
    }
}

/// Removes the runtime from the preload list for programs that this one starts.
fn forget_preload() {
    const NAME: &str = "LD_PRELOAD";
    let Some(all) = std::env::var_os(NAME).and_then(|all| all.into_string().ok()) else { return };
    let others: Vec<&str> =
        all.split([':', ' ']).filter(|path| !path.ends_with("libcrashproof_runtime.so")).collect();
    // SAFETY: only this thread runs.
    unsafe {
        if others.is_empty() {
            std::env::remove_var(NAME);
        } else {
            std::env::set_var(NAME, others.join(":"));
        }
    }
}

/// Turns this process into the child that the checker requested.
fn become_child() {
    prefault::start();
    // SAFETY: descriptors and settings of this process, which runs nothing of the program's yet.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if HAS_INPUT.load(Relaxed) {
            // Reopened, because all descriptors from one `open` share a position.
            let arguments =
                [libc::AT_FDCWD as usize, INPUT_PATH.as_ptr() as usize, libc::O_RDONLY as usize, 0, 0, 0];
            let input = raw_syscall(libc::SYS_openat, arguments) as usize;
            raw_syscall(libc::SYS_dup2, [input, 0, 0, 0, 0, 0]);
            raw_syscall(libc::SYS_close, [input, 0, 0, 0, 0, 0]);
            raw_syscall(libc::SYS_close, [fd::INPUT as usize, 0, 0, 0, 0, 0]);
        }
        raw_syscall(libc::SYS_close, [fd::COMMAND as usize, 0, 0, 0, 0, 0]);
        process::limit_time();
    }
    session::begin_recording();
    process::start();
    turns::begin();
    note_early_threads();
    for patch in session::patches() {
        // SAFETY: patches are lines of the pool.
        unsafe { raw::copy(patch.address as *mut u8, patch.bytes.as_ptr(), patch.bytes.len()) };
    }
    endless::start();
    stacks::start();
    follow::start();
}
