//! The first command that users try: `crashproof check ./program`, without options for persistent memory. A file that
//! is mapped shared is what must survive, the report says so, and the user's files remain unchanged.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crashproof_toolchain::testing;

struct Place {
    directory: tempfile::TempDir,
}

/// The result of a check.
struct Outcome {
    code: i32,
    text: String,
}

impl Outcome {
    #[track_caller]
    fn is(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}", self.text);
        for part in parts {
            assert!(self.text.contains(part), "no {part:?} in:\n{}", self.text);
        }
    }
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds a program with the system's compiler.
    #[track_caller]
    fn gcc(&self, source: &str, flags: &[&str]) {
        fs::write(self.path("program.c"), source).expect("a file");
        let output = Command::new("gcc")
            .args(["-g", "-O1", "-mclflushopt", "-D_GNU_SOURCE", "program.c", "-o", "program"])
            .args(flags)
            .current_dir(self.directory.path())
            .output()
            .expect("the compiler runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn check(&self, arguments: &[&str]) -> Outcome {
        let output = Command::new(testing::tools().join("crashproof"))
            .arg("check")
            .args(arguments)
            .current_dir(self.directory.path())
            .output()
            .expect("crashproof runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Outcome { code: output.status.code().expect("it ends on its own"), text: text.concat() }
    }
}

/// A log written for persistent memory: entries first, then their count.
const LOG: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct log { long count; char pad[56]; char entries[8][64]; };
static void write_back(struct log *log, void *at, size_t bytes) {
#ifdef MSYNC
  msync(log, sizeof *log, MS_SYNC);
#else
  for (char *line = (char *)((long)at & -64); line < (char *)at + bytes; line += 64)
    _mm_clflushopt(line);
  _mm_sfence();
#endif
}
int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "pool", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct log)) != 0)
    return 2;
  struct log *log = mmap(0, sizeof *log, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (log == MAP_FAILED)
    return 3;
  for (long i = 0; i < log->count; i++)
    if (strcmp(log->entries[i], "entry") != 0) {
      fprintf(stderr, "entry %ld is lost\n", i);
      return 1;
    }
  while (log->count < 3) {
    strcpy(log->entries[log->count], "entry"); /* line 31 */
#ifdef GOOD
    write_back(log, log->entries[log->count], 64);
#endif
    log->count++;
    write_back(log, &log->count, sizeof log->count);
  }
  return 0;
}
"#;

#[test]
fn a_mapped_file_is_persistent_memory() {
    let place = Place::new();
    place.gcc(LOG, &[]);
    let said = ["pool: taken as persistent", "on persistent memory", "--pm-path and --medium"];
    place.check(&["./program"]).is(1, &[&["program.c:31"][..], &said].concat());
    place.check(&["program.c"]).is(1, &[&["program.c:31"][..], &said].concat());
    place.gcc(LOG, &["-DGOOD"]);
    place.check(&["./program"]).is(0, &said);
    assert!(!place.path("pool").exists(), "nothing is left behind");
}

/// A log in more segments than anyone would list by hand, in use only in the last one.
#[test]
fn all_files_that_a_program_maps_are_found() {
    const SEGMENTS: &str = r#"
#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
struct segment { long value; char pad[56]; long valid; };
static void persist(void *at) { _mm_clflushopt(at); _mm_sfence(); }
int main(void) {
  struct segment *segment = 0;
  for (int i = 0; i < 70; i++) {
    char path[32];
    sprintf(path, "segment.%d", i);
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
      return 2;
    segment = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (segment == MAP_FAILED || close(fd) != 0)
      return 3;
  }
  if (segment->valid && segment->value != 7)
    return 1;
  segment->value = 7; /* line 23 */
#ifdef GOOD
  persist(&segment->value);
#endif
  segment->valid = 1;
  persist(&segment->valid);
  return 0;
}
"#;
    let place = Place::new();
    place.gcc(SEGMENTS, &[]);
    place.check(&["./program"]).is(1, &["program.c:23", "and 69 other files: taken as persistent"]);
    place.gcc(SEGMENTS, &["-DGOOD"]);
    place.check(&["./program"]).is(0, &["and 69 other files: taken as persistent"]);
}

#[test]
fn the_users_file_stays_as_it_is() {
    let place = Place::new();
    place.gcc(LOG, &["-DGOOD"]);
    fs::write(place.path("pool"), [0; 576]).expect("a file");
    place.check(&["./program"]).is(0, &["pool: taken as persistent"]);
    assert_eq!(fs::read(place.path("pool")).expect("it is there"), [0; 576]);
    // Existing content is the starting point of every run.
    let mut old = vec![0; 576];
    (old[0], old[64]) = (1, b'x');
    fs::write(place.path("pool"), &old).expect("a file");
    place.check(&["./program"]).is(2, &["entry 0 is lost"]);
    assert_eq!(fs::read(place.path("pool")).expect("it is there"), old);
}

/// A program that calls the kernel and never flushes is meant for a disk, on which a sector survives as a whole.
#[test]
fn a_program_that_calls_msync_is_on_a_disk() {
    let place = Place::new();
    place.gcc(LOG, &["-DGOOD", "-DMSYNC"]);
    place.check(&["./program"]).is(0, &["on a disk: the program calls msync or fsync", "medium disk"]);
    place.check(&["./program", "--medium", "dax"]).is(0, &["medium dax"]);
    place.gcc(LOG, &["-DMSYNC"]);
    // The entry is in the same sector as the count, until sectors are smaller.
    place.check(&["./program", "--sector", "64", "--medium", "disk"]).is(1, &["program.c:31", "synced"]);
}

/// Files mapped read-only or privately are not data of the program.
#[test]
fn what_is_only_read_is_no_persistent_memory() {
    let place = Place::new();
    let source = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
  int fd = open("program.c", O_RDONLY);
  char *shared = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
  char *own = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (shared == MAP_FAILED || own == MAP_FAILED)
    return 2;
  own[0] = shared[1];
  return 0;
}
"#;
    place.gcc(source, &[]);
    place.check(&["./program"]).is(3, &["no persistent memory found"]);
}

#[test]
fn what_to_type_next() {
    let place = Place::new();
    place.gcc(LOG, &["-static"]);
    place.check(&["./program"]).is(2, &["linked statically", "crashproof cc"]);
    fs::write(place.path("script.py"), "import mmap\n").expect("a file");
    place.check(&["script.py"]).is(2, &["crashproof check python3 -- script.py"]);
    fs::write(place.path("Cargo.toml"), "[package]\nname = \"x\"\n").expect("a file");
    place.check(&["Cargo.toml"]).is(2, &["crashproof cargo"]);
}

/// For a program that only writes files, the report names the option that checks those.
#[test]
fn a_program_that_only_writes_files() {
    let place = Place::new();
    let source = r#"
#include <fcntl.h>
#include <unistd.h>
int main(void) {
  int fd = open("data", O_RDWR | O_CREAT, 0644);
  return write(fd, "text", 4) != 4 || fsync(fd) != 0;
}
"#;
    place.gcc(source, &[]);
    place.check(&["./program"]).is(3, &["no persistent memory found", "`data`", "--medium disk"]);
    place.check(&["./program", "--medium", "disk"]).is(0, &["medium disk"]);
    assert!(!place.path("data").exists() || fs::read(place.path("data")).expect("a file") == b"text");
}
