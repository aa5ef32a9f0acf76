// How the keeper knows that no instruction of a process can touch memory any more: a page of memory that the process
// maps and never unmaps, and a lock on the open file behind it.
//
//   keeper: probe_ ------------------ the file ------------- open file description, flock LOCK_EX
//           (a description of its own: its try to lock              ^              ^
//            fails as long as the other lives)            descriptor in flight   the mapping in the process
//
// The lock goes when the last reference to the description goes: descriptors and mappings. The mapping is the address
// space's: it lives as long as any thread of the process, or of a vfork child that borrows its memory, can run in it,
// and it goes with exec, exit and kill -9. A socket's end does not tell that much (the program may close any
// descriptor, a child may have inherited it), nor does the process's (exec, vfork). MADV_DONTFORK keeps it from forked
// children, whose lifelines are their own. See "Who may touch a frame of a program" in docs/design-notes.md.
//
// Thread safety: none needed; one owner. grasp_lifeline() is part of the code inside programs.
#pragma once

#include "base/expected.h"
#include "base/fd.h"

namespace comex {

class Lifeline {
 public:
  static Expected<Lifeline> make();

  // The descriptor for the process; the keeper must not keep it once it has been sent.
  Fd take_end() { return std::move(end_); }
  // False once nothing refers to the end any more, and for good.
  [[nodiscard]] bool held() const;

 private:
  Fd probe_;
  Fd end_;
};

// In the process: maps the end; nullptr if that fails. The descriptor can be closed afterwards. Let go of it only when
// nothing of the process touches frames any more: usually never.
void* grasp_lifeline(int end) noexcept;
void let_go_of_lifeline(void* lifeline) noexcept;

}  // namespace comex
