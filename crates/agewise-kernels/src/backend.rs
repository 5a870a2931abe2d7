//! Which instructions compute.

#[cfg(target_arch = "x86_64")]
use crate::vector::{Avx2, Avx512};
use crate::vector::{Portable, Vector};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A way to compute. All of them give the same bits; they differ in speed, and in where they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backend(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The variable that names the backend of a process.
pub const VARIABLE: &str = "AGEWISE_KERNELS";

/// What [`Backend::choose`] chose.
static CHOSEN: OnceLock<Backend> = OnceLock::new();

/// A name that is none of a backend of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownBackend(pub String);

impl fmt::Display for UnknownBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernels {:?}: expected {}", self.0, Self::expected())
    }
}

impl std::error::Error for UnknownBackend {}

impl UnknownBackend {
    /// What would be right.
    pub fn expected() -> String {
        let names: Vec<&str> = Backend::available().into_iter().map(Backend::name).collect();
        format!("what this machine has: {}", names.join(", "))
    }
}

/// A computation that is written once for all vectors.
pub(crate) trait Kernel {
    /// Computes. It has to be inlined, and so has everything that it calls in its loops: only the function around it
    /// enables the instructions.
    ///
    /// # Safety
    /// The processor has the instructions of `V`, and whatever the kernel says of its pointers.
    unsafe fn run<V: Vector>(self);
}

impl Backend {
    /// The backend for every machine.
    pub const PORTABLE: Self = Self(Instructions::Portable);

    /// All backends of this machine, the fastest first.
    pub fn available() -> Vec<Self> {
        let mut backends = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 && is_x86_feature_detected!("avx512f") {
                backends.push(Self(Instructions::Avx512));
            }
            if avx2 {
                backends.push(Self(Instructions::Avx2));
            }
        }
        backends.push(Self::PORTABLE);
        backends
    }

    /// The fastest backend of this machine.
    pub fn fastest() -> Self {
        Self::available()[0]
    }

    /// The backend of this process: the one that was chosen, the one that [`VARIABLE`] names, or the fastest.
    pub fn selected() -> Result<Self, UnknownBackend> {
        if let Some(chosen) = CHOSEN.get() {
            return Ok(*chosen);
        }
        match std::env::var_os(VARIABLE) {
            Some(name) if !name.is_empty() => name.to_string_lossy().parse(),
            _ => Ok(Self::fastest()),
        }
    }

    /// Chooses the backend of this process, whatever [`VARIABLE`] says. The first choice stays.
    pub fn choose(self) {
        CHOSEN.get_or_init(|| self);
    }

    /// The name, as it is shown and recorded.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "avx512",
        }
    }

    /// Runs a kernel.
    ///
    /// # Safety
    /// Whatever the kernel says of its pointers. The processor has the instructions, because a backend other than the
    /// portable one is only ever made after the processor was asked for it.
    pub(crate) unsafe fn run<K: Kernel>(self, kernel: K) {
        match self.0 {
            Instructions::Portable => unsafe { kernel.run::<Portable>() },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { with_avx2(kernel) },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { with_avx512(kernel) },
        }
    }
}

/// # Safety
/// The processor has AVX2 and FMA, and as for [`Kernel::run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn with_avx2<K: Kernel>(kernel: K) {
    unsafe { kernel.run::<Avx2>() }
}

/// # Safety
/// The processor has AVX-512, and as for [`Kernel::run`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn with_avx512<K: Kernel>(kernel: K) {
    unsafe { kernel.run::<Avx512>() }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, UnknownBackend> {
        let found = Self::available().into_iter().find(|backend| backend.name() == name);
        found.ok_or_else(|| UnknownBackend(name.into()))
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_backends_of_this_machine() {
        for backend in Backend::available() {
            assert_eq!(backend.name().parse(), Ok(backend));
        }
        let error = "sse9".parse::<Backend>().unwrap_err().to_string();
        assert!(error.starts_with("kernels \"sse9\": expected what this machine has: "), "{error}");
        assert!(error.ends_with("portable"), "{error}");
    }
}
