#include "run/runtime/gate_entry.h"

// The kernel compares the address after the syscall instruction with the range: each must have one more instruction
// behind it inside.
asm(R"(
  .section .comex_gate, "ax", @progbits
  .globl comex_gate_begin, comex_gate_end, comex_gate_call, comex_gate_restorer, comex_gate_clone, comex_gate_exit
  .hidden comex_gate_begin, comex_gate_end, comex_gate_call, comex_gate_restorer, comex_gate_clone, comex_gate_exit
  .type comex_gate_call, @function
  .type comex_gate_restorer, @function
  .type comex_gate_clone, @function
  .type comex_gate_exit, @function
  .globl comex_gate_instruction
  .hidden comex_gate_instruction
  .globl comex_gate_wait, comex_wait_check, comex_wait_call, comex_wait_abort
  .hidden comex_gate_wait, comex_wait_check, comex_wait_call, comex_wait_abort
  .type comex_gate_wait, @function
comex_gate_begin:

comex_gate_call:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
comex_gate_instruction:
  syscall
  ret

comex_gate_restorer:
  mov $15, %eax
  syscall
  ud2

comex_gate_wait:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  mov 16(%rsp), %r11
comex_wait_check:
  cmpl $0, (%r11)
  jne comex_wait_abort
comex_wait_call:
  syscall
  ret
comex_wait_abort:
  mov $-512, %rax
  ret

comex_gate_exit:
  movl $0, (%rsi)
  mov $60, %eax
  syscall
  ud2

comex_gate_clone:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rdi, %r12
  mov 96(%r12), %rax
  mov 56(%r12), %rdi
  mov 64(%r12), %rsi
  mov 88(%r12), %rdx
  mov 16(%r12), %r10
  mov 0(%r12), %r8
  mov 8(%r12), %r9
  syscall
  test %rax, %rax
  jz 1f
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
1:
  mov 120(%r12), %rsp
  mov %r12, %rdi
  xor %ebp, %ebp
  call comex_child_begin
  mov 104(%r12), %rsp
  mov $14, %eax
  mov $2, %edi
  lea 128(%r12), %rsi
  xor %edx, %edx
  mov $8, %r10d
  syscall
  mov %r12, %r11
  mov 0(%r11), %r8
  mov 8(%r11), %r9
  mov 16(%r11), %r10
  mov 24(%r11), %r12
  mov 32(%r11), %r13
  mov 40(%r11), %r14
  mov 48(%r11), %r15
  mov 56(%r11), %rdi
  mov 64(%r11), %rsi
  mov 72(%r11), %rbp
  mov 80(%r11), %rbx
  mov 88(%r11), %rdx
  mov 112(%r11), %rcx
  xor %eax, %eax
  jmp *%rcx
  nop
comex_gate_end:
  nop
  .text
)");
