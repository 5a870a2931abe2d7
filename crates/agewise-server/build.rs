//! Compiles the protocol without a system `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["agewise/v1/coordinator.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".agewise.v1.Chunk.data")
        .bytes(".agewise.v1.ReportPart.data")
        .compile_fds(files)?;
    Ok(())
}
