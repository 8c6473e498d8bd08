#include "fiber.h"

#include <cstdint>
#include <new>
#include <sys/mman.h>

#include "sanitizer.h"

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace hgt::emulation {
namespace {

constexpr std::size_t kGuardBytes = 4096, kStackBytes = 128 << 10;

Fiber* g_entered = nullptr;  ///< the fiber that runs for the first time

}  // namespace

#ifdef __x86_64__

// Leaves its registers on its stack and the stack's place in *save, and continues where `to` was
// left. A tenth of swapcontext's time, which asks the kernel for the signal mask.
extern "C" void hgt_switch_stack(void** save, void* to);
asm(R"(
  .text
  .local hgt_switch_stack
  .type hgt_switch_stack, @function
hgt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size hgt_switch_stack, . - hgt_switch_stack
)");

namespace {

/// A stack as hgt_switch_stack leaves one: six registers, then where to continue. The entry finds
/// the stack pointer as after a call.
void* prepare_stack(std::byte* end, void (*entry)()) {
  void** top = reinterpret_cast<void**>(end);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  return top;
}
void release_place(void*) {}
void switch_stack(void** save, void** to) {
  hgt_switch_stack(save, *to);
}

}  // namespace

#else

namespace {

void* prepare_stack(std::byte* end, void (*entry)()) {
  auto* context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = end - kStackBytes;
  context->uc_stack.ss_size = kStackBytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}
void release_place(void* context) {
  delete static_cast<ucontext_t*>(context);
}
void switch_stack(void** save, void** to) {
  if (*save == nullptr) *save = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(*save), static_cast<ucontext_t*>(*to));
}

}  // namespace

#endif

Fiber::Fiber(void (*body)()) : body_(body) {
  void* const memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kGuardBytes, PROT_NONE);
  memory_ = static_cast<std::byte*>(memory);
  place_ = prepare_stack(memory_ + kGuardBytes + kStackBytes, enter);
}

Fiber::~Fiber() {
  unpoison(memory_, kGuardBytes + kStackBytes);
  munmap(memory_, kGuardBytes + kStackBytes);
  release_place(place_);
  release_place(caller_);
}

void Fiber::enter() {
  Fiber& self = *g_entered;
  finish_switch(nullptr, &self.caller_stack_, &self.caller_stack_bytes_);
  self.body_();
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  g_entered = this;
  start_switch(&fake_stack, memory_ + kGuardBytes, kStackBytes);
  switch_stack(&caller_, &place_);
  finish_switch(fake_stack, nullptr, nullptr);
}

void Fiber::suspend() {
  void* fake_stack = nullptr;
  start_switch(&fake_stack, caller_stack_, caller_stack_bytes_);
  switch_stack(&place_, &caller_);
  finish_switch(fake_stack, &caller_stack_, &caller_stack_bytes_);
}

}  // namespace hgt::emulation
