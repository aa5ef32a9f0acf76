// Programs that are executed with an environment of their own (env -i, a daemon that cleans up): what the runtime is
// found by is put in again, so that the whole tree of processes stays under the budget.
//
// COMEX_RUN may have two words more, for the program that is executed only: which of the runtime's two signals it is to
// begin with ignored, and the number of the process that executed it or, negative, of its parent, so that nobody else
// takes it for himself. The kernel has handlers of ours for them, and so would have it begin with their defaults.
//
// Thread safety: any thread; also in the child of a vfork.
#pragma once

namespace comex::runtime {

// `variable`: the value of COMEX_RUN. To be called once, when the library is loaded.
void remember_environment(const char* variable) noexcept;

}  // namespace comex::runtime
