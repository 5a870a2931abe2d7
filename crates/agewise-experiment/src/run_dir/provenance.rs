//! Where, when and with what a run was played: `provenance.json`. It differs from machine to machine, so none of it is in
//! the files whose bytes repeat.

use super::{PROVENANCE, RunDir, RunDirError};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The variable that puts the name of the host into the file; without it the name stays out.
const RECORD_HOST: &str = "AGEWISE_RECORD_HOST";

/// One process that worked on a run: the one that began it, or one that resumed or extended it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Session {
    version: String,
    /// Of a release build from a repository (`build.rs`), or one with `AGEWISE_COMMIT` in the environment.
    commit: Option<String>,
    system: String,
    processor: Option<String>,
    /// The kernels that trained; all of them give the same bits.
    kernels: Option<String>,
    threads: usize,
    host: Option<String>,
    /// In UTC.
    begun: String,
    /// `None` if the process was killed.
    seconds: Option<f64>,
}

/// The file while a process works on the run.
pub(crate) struct Provenance<'a> {
    dir: &'a RunDir,
    begin: Instant,
    /// Of this process, behind those of earlier ones.
    sessions: Vec<Session>,
}

impl<'a> Provenance<'a> {
    /// Writes down that this process begins, with so many threads and these kernels.
    pub(crate) fn begin(
        dir: &'a RunDir,
        threads: usize,
        kernels: Option<&str>,
    ) -> Result<Self, RunDirError> {
        // A file that cannot be understood is no reason to refuse a run.
        let known = dir.read(PROVENANCE)?.and_then(|text| serde_json::from_str(&text).ok());
        let mut sessions: Vec<Session> = known.unwrap_or_default();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        sessions.push(Session {
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: option_env!("AGEWISE_COMMIT").map(str::to_string),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            processor: processor(),
            kernels: kernels.map(str::to_string),
            threads,
            host: std::env::var_os(RECORD_HOST).and_then(|_| host()),
            begun: utc(since),
            seconds: None,
        });
        let provenance = Self { dir, begin: Instant::now(), sessions };
        provenance.write()?;
        Ok(provenance)
    }

    /// Writes down how long it took.
    pub(crate) fn end(mut self) -> Result<(), RunDirError> {
        let seconds = self.begin.elapsed().as_secs_f64();
        if let Some(session) = self.sessions.last_mut() {
            session.seconds = Some((seconds * 1000.0).round() / 1000.0);
        }
        self.write()
    }

    fn write(&self) -> Result<(), RunDirError> {
        let text = serde_json::to_string_pretty(&self.sessions);
        let text = text.map_err(|error| self.dir.failed(PROVENANCE, error.into()))?;
        self.dir.write(PROVENANCE, (text + "\n").as_bytes())
    }
}

/// What the system calls its processor, where it says so, with the numbers that tell its kind: `AMD EPYC (family 26,
/// model 2, stepping 1)`. Virtual machines hide the rest of the name.
pub fn processor() -> Option<String> {
    describe(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn describe(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim())
    };
    let name = field("model name")?;
    let numbers = [("family", "cpu family"), ("model", "model"), ("stepping", "stepping")];
    let numbers: Vec<String> = numbers
        .iter()
        .filter_map(|&(shown, name)| Some(format!("{shown} {}", field(name)?)))
        .collect();
    Some(if numbers.is_empty() {
        name.to_string()
    } else {
        format!("{name} ({})", numbers.join(", "))
    })
}

fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    name.or_else(|| std::env::var("HOSTNAME").ok()).map(|name| name.trim().to_string())
}

/// A time since 1970 as `2027-01-31T23:59:59Z`.
fn utc(since: Duration) -> String {
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (mut year, mut day) = (1970, days);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{:02}Z", day + 1, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn a_processor_has_a_name_and_numbers() {
        let amd = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\
                   stepping\t: 1\n\nprocessor\t: 1\nmodel\t\t: 3\n";
        assert_eq!(describe(amd).unwrap(), "AMD EPYC (family 26, model 2, stepping 1)");
        assert_eq!(describe("model name\t: A processor: fast\n").unwrap(), "A processor: fast");
        assert_eq!(describe("processor\t: 0\n"), None);
    }

    #[test]
    fn every_process_leaves_a_session() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(Some(&folder.path().join("run")), "test", false).unwrap();
        let sessions = || -> Vec<Session> {
            serde_json::from_str(&dir.read(PROVENANCE).unwrap().unwrap()).unwrap()
        };
        Provenance::begin(&dir, 2, Some("avx2")).unwrap().end().unwrap();
        // Killed.
        Provenance::begin(&dir, 3, None).unwrap();
        let found = sessions();
        assert_eq!((found.len(), found[0].threads, found[1].threads), (2, 2, 3));
        assert_eq!(found[0].kernels.as_deref(), Some("avx2"));
        assert!(found[0].seconds.is_some() && found[1].seconds.is_none());
        assert!(found.iter().all(|session| session.host.is_none()));
        dir.write(PROVENANCE, b"not JSON").unwrap();
        Provenance::begin(&dir, 1, None).unwrap().end().unwrap();
        assert_eq!(sessions().len(), 1);
    }
}
