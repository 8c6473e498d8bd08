#include "sgemm.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include "hgtrain/base/error.h"

namespace hgt::cpu {

// oneDNN 2 and 3 have the same function.
void sgemm(const Sgemm& g) {
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, g.alpha, g.a,
                 g.lda, g.b, g.ldb, g.beta, g.c, g.ldc);
  if (status != dnnl_success)
    throw Error(ErrorKind::kInternal,
                fmt::format("oneDNN refused sgemm {}x{}x{} (lda {}, ldb {}, ldc {}): status {}",
                            g.m, g.n, g.k, g.lda, g.ldb, g.ldc, static_cast<int>(status)));
}

}  // namespace hgt::cpu
