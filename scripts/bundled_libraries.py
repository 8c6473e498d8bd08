"""Which libraries a bundle of hgtrain's programs carries with it."""
import re
import subprocess

# glibc, CUDA's libraries and the driver's: a machine that runs the bundle has its own.
NOT_BUNDLED = re.compile(r'^(ld-linux|libc\.|libm\.|libdl\.|libpthread\.|librt\.|libresolv\.|libcuda|libcudart|libcublas|libnccl|libcudnn|libnvidia)')


def libraries_of(program):
    """The libraries that the loader finds for a program, by name: {name: path}. Without those of NOT_BUNDLED."""
    listed = subprocess.run(['ldd', program], check=True, capture_output=True, text=True).stdout
    return {name: path for name, path in re.findall(r'^\s*(\S+) => (/\S+)', listed, re.M) if not NOT_BUNDLED.match(name)}
