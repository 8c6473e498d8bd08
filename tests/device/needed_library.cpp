// Stands for a CUDA library: its name inside, libhgt_needed.so.9, is not its file's name, so the
// system cannot find it.

extern "C" int hgt_needed() {
  return 9;
}
