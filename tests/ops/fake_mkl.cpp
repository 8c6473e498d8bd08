// A library in place of Intel's MKL: a cblas_sgemm of plain loops, and what is asked of MKL before
// it.

#include <cstring>

extern "C" {

int MKL_Set_Interface_Layer(int layer) {
  return layer;
}
int MKL_Set_Threading_Layer(int layer) {
  return layer;
}
int MKL_CBWR_Set(int) {
  return 0;
}
void MKL_Get_Version_String(char* text, int size) {
  std::strncpy(text, "a fake of MKL", static_cast<std::size_t>(size));
}

void cblas_sgemm(int, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  constexpr int kTranspose = 112;
  const auto at = [](const float* x, int ld, bool transposed, int row, int column) {
    return transposed ? x[column * ld + row] : x[row * ld + column];
  };
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l)
        sum += double{at(a, lda, transpose_a == kTranspose, i, l)} *
               double{at(b, ldb, transpose_b == kTranspose, l, j)};
      float& out = c[i * ldc + j];
      out = static_cast<float>(alpha * sum) + (beta == 0 ? 0 : beta * out);
    }
}
}
