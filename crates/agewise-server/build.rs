//! Compiles the protocol without a system `protoc`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["agewise/v1/coordinator.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".agewise.v1.Chunk.data")
        .bytes(".agewise.v1.ReportPart.data")
        .build_server(false)
        .compile_fds(files.clone())?;
    // The server has a codec of its own, for the same messages.
    let server = PathBuf::from(std::env::var("OUT_DIR")?).join("server");
    std::fs::create_dir_all(&server)?;
    tonic_prost_build::configure()
        .out_dir(server)
        .extern_path(".agewise.v1", "crate::protocol")
        .codec_path("crate::protocol::codec::ServerCodec")
        .build_client(false)
        .compile_fds(files)?;
    Ok(())
}
