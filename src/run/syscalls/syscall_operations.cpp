#include "run/syscalls/syscall_operations.h"

#include <span>

#include "run/syscalls/syscall_memory.h"

namespace comex::syscalls {
namespace {

using enum Width;
using bytes_of::flock;
using bytes_of::siginfo;
using bytes_of::timespec;

constexpr Memory filter(Argument at) {
  return as(Extent::filter, Direction::in, at);
}
constexpr Memory one_iovec(Direction direction, Argument at) {
  return {Extent::iovec, direction, at, 0, word, 1, 0};
}

constexpr Operation kFcntl[] = {
    {5, {inout(2, flock)}},   // F_GETLK
    {6, {in(2, flock)}},      // F_SETLK
    {7, {in(2, flock)}},      // F_SETLKW
    {15, {in(2, 8)}},         // F_SETOWN_EX
    {16, {out(2, 8)}},        // F_GETOWN_EX
    {17, {out(2, 8)}},        // F_GETOWNER_UIDS
    {36, {inout(2, flock)}},  // F_OFD_GETLK
    {37, {in(2, flock)}},     // F_OFD_SETLK
    {38, {in(2, flock)}},     // F_OFD_SETLKW
    {1035, {out(2, 8)}},      // F_GET_RW_HINT
    {1036, {in(2, 8)}},       // F_SET_RW_HINT
    {1037, {out(2, 8)}},      // F_GET_FILE_RW_HINT
    {1038, {in(2, 8)}},       // F_SET_FILE_RW_HINT
    {1039, {inout(2, 8)}},    // F_GETDELEG
    {1040, {in(2, 8)}},       // F_SETDELEG
};

constexpr Operation kPrctl[] = {
    {2, {out(1, 4)}},               // PR_GET_PDEATHSIG
    {6, {out(1, 4)}},               // PR_GET_UNALIGN
    {9, {out(1, 4)}},               // PR_GET_FPEMU
    {11, {out(1, 4)}},              // PR_GET_FPEXC
    {15, {string(1, 16)}},          // PR_SET_NAME
    {16, {out(1, 16)}},             // PR_GET_NAME
    {19, {out(1, 4)}},              // PR_GET_ENDIAN
    {22, {filter(2)}},              // PR_SET_SECCOMP
    {25, {out(1, 4)}},              // PR_GET_TSC
    {35, {guess(2, 104)}},          // PR_SET_MM
    {37, {out(1, 4)}},              // PR_GET_CHILD_SUBREAPER
    {40, {out(1, 8)}},              // PR_GET_TID_ADDRESS
    {59, {in(4, 1)}},               // PR_SET_SYSCALL_USER_DISPATCH
    {62, {out(4, 8)}},              // PR_SCHED_CORE
    {74, {out(1, 8)}},              // PR_GET_SHADOW_STACK_STATUS
    {0x41555856, {out_by(1, 2)}},   // PR_GET_AUXV
    {0x53564d41, {string(4, 80)}},  // PR_SET_VMA
};

constexpr Operation kArchPrctl[] = {
    {0x1003, {out(1, 8)}},  // ARCH_GET_FS
    {0x1004, {out(1, 8)}},  // ARCH_GET_GS
    {0x1021, {out(1, 8)}},  // ARCH_GET_XCOMP_SUPP
    {0x1022, {out(1, 8)}},  // ARCH_GET_XCOMP_PERM
    {0x1024, {out(1, 8)}},  // ARCH_GET_XCOMP_GUEST_PERM
    {0x4001, {out(1, 8)}},  // ARCH_GET_UNTAG_MASK
    {0x4003, {out(1, 8)}},  // ARCH_GET_MAX_TAG_BITS
    {0x5005, {out(1, 8)}},  // ARCH_SHSTK_STATUS
};

// A shared futex needs its page even where the kernel does not look at the value.
constexpr Operation kFutex[] = {
    {0, {in(0, 4), in(3, timespec)}},                // FUTEX_WAIT
    {1, {in(0, 4)}},                                 // FUTEX_WAKE
    {3, {in(0, 4), in(4, 4)}},                       // FUTEX_REQUEUE
    {4, {in(0, 4), in(4, 4)}},                       // FUTEX_CMP_REQUEUE
    {5, {in(0, 4), inout(4, 4)}},                    // FUTEX_WAKE_OP
    {6, {inout(0, 4), in(3, timespec)}},             // FUTEX_LOCK_PI
    {7, {inout(0, 4)}},                              // FUTEX_UNLOCK_PI
    {8, {inout(0, 4)}},                              // FUTEX_TRYLOCK_PI
    {9, {in(0, 4), in(3, timespec)}},                // FUTEX_WAIT_BITSET
    {10, {in(0, 4)}},                                // FUTEX_WAKE_BITSET
    {11, {in(0, 4), in(3, timespec), inout(4, 4)}},  // FUTEX_WAIT_REQUEUE_PI
    {12, {in(0, 4), inout(4, 4)}},                   // FUTEX_CMP_REQUEUE_PI
    {13, {inout(0, 4), in(3, timespec)}},            // FUTEX_LOCK_PI2
};

constexpr Operation kKeyctl[] = {
    {1, {string(1, 4096)}},                         // KEYCTL_JOIN_SESSION_KEYRING
    {2, {in_by(2, 3)}},                             // KEYCTL_UPDATE
    {6, {out_by(2, 3)}},                            // KEYCTL_DESCRIBE
    {10, {string(2, 32), string(3, 4096)}},         // KEYCTL_SEARCH
    {11, {out_by(2, 3)}},                           // KEYCTL_READ
    {12, {in_by(2, 3)}},                            // KEYCTL_INSTANTIATE
    {17, {out_by(2, 3)}},                           // KEYCTL_GET_SECURITY
    {20, {iovec_in(2, 3)}},                         // KEYCTL_INSTANTIATE_IOV
    {23, {in(1, 12), out_by(2, 3), guess(4, 64)}},  // KEYCTL_DH_COMPUTE
    {24, {string(3, 4096), out(4, 56)}},            // KEYCTL_PKEY_QUERY
    {25, {in(1, 40), string(2, 4096)}, true},       // KEYCTL_PKEY_ENCRYPT
    {26, {in(1, 40), string(2, 4096)}, true},       // KEYCTL_PKEY_DECRYPT
    {27, {in(1, 40), string(2, 4096)}, true},       // KEYCTL_PKEY_SIGN
    {28, {in(1, 40), string(2, 4096)}, true},       // KEYCTL_PKEY_VERIFY
    {29, {string(2, 32), string(3, 4096)}},         // KEYCTL_RESTRICT_KEYRING
    {31, {out_by(1, 2)}},                           // KEYCTL_CAPABILITIES
};

// By the upper 24 bits of the command: the lower 8 say whose quota.
constexpr Operation kQuotactl[] = {
    {0x800002, {path(3)}},      // Q_QUOTAON
    {0x800004, {out(3, 4)}},    // Q_GETFMT
    {0x800005, {out(3, 24)}},   // Q_GETINFO
    {0x800006, {in(3, 24)}},    // Q_SETINFO
    {0x800007, {out(3, 72)}},   // Q_GETQUOTA
    {0x800008, {in(3, 72)}},    // Q_SETQUOTA
    {0x800009, {out(3, 80)}},   // Q_GETNEXTQUOTA
    {0x5801, {in(3, 4)}},       // Q_XQUOTAON
    {0x5802, {in(3, 4)}},       // Q_XQUOTAOFF
    {0x5803, {out(3, 112)}},    // Q_XGETQUOTA
    {0x5804, {in(3, 112)}},     // Q_XSETQLIM
    {0x5805, {out(3, 80)}},     // Q_XGETQSTAT
    {0x5806, {in(3, 4)}},       // Q_XQUOTARM
    {0x5808, {inout(3, 160)}},  // Q_XGETQSTATV
    {0x5809, {out(3, 112)}},    // Q_XGETNEXTQUOTA
};

// GETALL and SETALL are as long as the set has semaphores, which only the kernel knows: 32000 at most by default.
constexpr std::uint32_t kAllSemaphores = 32000 * 2;
constexpr Operation kSemctl[] = {
    {1, {in(3, 104)}},               // IPC_SET
    {2, {out(3, 104)}},              // IPC_STAT
    {3, {out(3, 40)}},               // IPC_INFO
    {13, {out(3, kAllSemaphores)}},  // GETALL
    {17, {in(3, kAllSemaphores)}},   // SETALL
    {18, {out(3, 104)}},             // SEM_STAT
    {19, {out(3, 40)}},              // SEM_INFO
    {20, {out(3, 104)}},             // SEM_STAT_ANY
};
constexpr Operation kMsgctl[] = {
    {1, {in(2, 120)}},    // IPC_SET
    {2, {out(2, 120)}},   // IPC_STAT
    {3, {out(2, 32)}},    // IPC_INFO
    {11, {out(2, 120)}},  // MSG_STAT
    {12, {out(2, 32)}},   // MSG_INFO
    {13, {out(2, 120)}},  // MSG_STAT_ANY
};
constexpr Operation kShmctl[] = {
    {1, {in(2, 112)}},    // IPC_SET
    {2, {out(2, 112)}},   // IPC_STAT
    {3, {out(2, 72)}},    // IPC_INFO
    {13, {out(2, 112)}},  // SHM_STAT
    {14, {out(2, 48)}},   // SHM_INFO
    {15, {out(2, 112)}},  // SHM_STAT_ANY
};

constexpr Operation kPtrace[] = {
    {1, {out(3, 8)}},                                        // PTRACE_PEEKTEXT
    {2, {out(3, 8)}},                                        // PTRACE_PEEKDATA
    {3, {out(3, 8)}},                                        // PTRACE_PEEKUSR
    {12, {out(3, 216)}},                                     // PTRACE_GETREGS
    {13, {in(3, 216)}},                                      // PTRACE_SETREGS
    {14, {out(3, 512)}},                                     // PTRACE_GETFPREGS
    {15, {in(3, 512)}},                                      // PTRACE_SETFPREGS
    {25, {out(3, 16)}},                                      // PTRACE_GET_THREAD_AREA
    {26, {in(3, 16)}},                                       // PTRACE_SET_THREAD_AREA
    {30, {out(2, 8)}},                                       // PTRACE_ARCH_PRCTL
    {0x4201, {out(3, 8)}},                                   // PTRACE_GETEVENTMSG
    {0x4202, {out(3, siginfo)}},                             // PTRACE_GETSIGINFO
    {0x4203, {in(3, siginfo)}},                              // PTRACE_SETSIGINFO
    {0x4204, {inout(3, 16), one_iovec(Direction::out, 3)}},  // PTRACE_GETREGSET
    {0x4205, {inout(3, 16), one_iovec(Direction::in, 3)}},   // PTRACE_SETREGSET
    {0x4209, {in(2, 16)}, true},                             // PTRACE_PEEKSIGINFO
    {0x420a, {out_by(3, 2)}},                                // PTRACE_GETSIGMASK
    {0x420b, {in_by(3, 2)}},                                 // PTRACE_SETSIGMASK
    {0x420c, {}, true},                                      // PTRACE_SECCOMP_GET_FILTER
    {0x420d, {inout_by(3, 2)}},                              // PTRACE_SECCOMP_GET_METADATA
    {0x420e, {out_by(3, 2)}},                                // PTRACE_GET_SYSCALL_INFO
    {0x420f, {out_by(3, 2)}},                                // PTRACE_GET_RSEQ_CONFIGURATION
    {0x4210, {in_by(3, 2)}},                                 // PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG
    {0x4211, {out_by(3, 2)}},                                // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
    {0x4212, {in_by(3, 2)}},                                 // PTRACE_SET_SYSCALL_INFO
};

constexpr Operation kSeccomp[] = {
    {1, {filter(2)}},  // SECCOMP_SET_MODE_FILTER
    {2, {in(2, 4)}},   // SECCOMP_GET_ACTION_AVAIL
    {3, {out(2, 6)}},  // SECCOMP_GET_NOTIF_SIZES
};

// By level and name; all others are as long as they say.
constexpr std::uint32_t kSocketLevel = 1U << 16;
constexpr Operation kSetsockopt[] = {
    {kSocketLevel | 26, {filter(3)}},  // SO_ATTACH_FILTER
    {kSocketLevel | 51, {filter(3)}},  // SO_ATTACH_REUSEPORT_CBPF
};
// The length is a number of instructions of 8 bytes.
constexpr Operation kGetFilter{kSocketLevel | 26, {{Extent::socklen, Direction::out, 3, 4, word, 8, 0}}};
constexpr Operation kGetsockopt{0, {{Extent::socklen, Direction::inout, 3, 4, word, 1, 0}}};

constexpr Operation kSyslog[] = {
    {2, {out_by(1, 2, signed_int)}},
    {3, {out_by(1, 2, signed_int)}},
    {4, {out_by(1, 2, signed_int)}},
};
constexpr Operation kModifyLdt[] = {
    {0, {out_by(1, 2)}},
    {1, {in_by(1, 2)}},
    {2, {out_by(1, 2)}},
    {0x11, {in_by(1, 2)}},
};
constexpr Operation kFsconfig[] = {
    {1, {string(3, 256)}},           // FSCONFIG_SET_STRING
    {2, {in_by(3, 4, signed_int)}},  // FSCONFIG_SET_BINARY
    {3, {path(3)}},                  // FSCONFIG_SET_PATH
    {4, {path(3)}},                  // FSCONFIG_SET_PATH_EMPTY
};
constexpr Operation kLandlock[] = {
    {1, {in(2, 12)}},  // LANDLOCK_RULE_PATH_BENEATH
    {2, {in(2, 16)}},  // LANDLOCK_RULE_NET_PORT
};
constexpr Operation kKcmp[] = {{7, {in(4, 12)}}};                  // KCMP_EPOLL_TFD
constexpr Operation kReboot[] = {{0xA1B2C3D4, {string(3, 256)}}};  // LINUX_REBOOT_CMD_RESTART2
constexpr Operation kSysfs[] = {{1, {string(1, 4096)}}, {2, {guess(2, 256)}}};

// By the flags IORING_ENTER_EXT_ARG (8) and IORING_ENTER_EXT_ARG_REG (64, an offset instead of an address).
constexpr Operation kRingEnter[] = {
    {0, {in_by(4, 5)}},
    {8, {as(Extent::ring_wait, Direction::in, 4, 5)}},
};
// By what is written: the parent's copy of the number or the descriptor of the child (1), the child's own copy (2).
constexpr Operation kClone[] = {{1, {out(2, 4)}}, {2, {out(3, 4)}}, {3, {out(2, 4), out(3, 4)}}};

constexpr std::uint64_t kCloneParent = 0x00100000 | 0x00001000;  // CLONE_PARENT_SETTID, CLONE_PIDFD
constexpr std::uint64_t kCloneChild = 0x01000000 | 0x00200000;   // CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID

Operation find(std::span<const Operation> operations, std::uint64_t value, bool guess_others = false) noexcept {
  const auto wanted = static_cast<std::uint32_t>(value);
  for (const Operation& operation : operations)
    if (operation.value == wanted) return operation;
  return {wanted, {}, guess_others};
}

std::uint32_t option_key(const Call& call) noexcept {
  return static_cast<std::uint32_t>((call.arguments[1] & 0xFFFF) << 16 | (call.arguments[2] & 0xFFFF));
}

}  // namespace

Operation operation_of(const Call& call) noexcept {
  const auto& a = call.arguments;
  switch (entry(call.number).operations) {
    case Family::none: break;
    case Family::fcntl: return find(kFcntl, a[1]);
    case Family::ioctl: return ioctl_operation(static_cast<std::uint32_t>(a[1]));
    case Family::prctl: return find(kPrctl, a[0], true);
    case Family::arch_prctl: return find(kArchPrctl, a[0]);
    case Family::futex: return find(kFutex, a[1] & 0x7F);
    case Family::keyctl: return find(kKeyctl, a[0], true);
    case Family::quotactl: return find(kQuotactl, (a[0] & 0xFFFFFFFF) >> 8);
    case Family::quotactl_fd: return find(kQuotactl, (a[1] & 0xFFFFFFFF) >> 8);
    case Family::semctl: return find(kSemctl, a[2]);
    case Family::msgctl: return find(kMsgctl, a[1]);
    case Family::shmctl: return find(kShmctl, a[1]);
    case Family::ptrace: return find(kPtrace, a[0]);
    case Family::seccomp: return find(kSeccomp, a[0]);
    case Family::setsockopt: return find(kSetsockopt, option_key(call));
    case Family::getsockopt: return option_key(call) == kGetFilter.value ? kGetFilter : kGetsockopt;
    case Family::syslog: return find(kSyslog, a[0]);
    case Family::modify_ldt: return find(kModifyLdt, a[0]);
    case Family::fsconfig: return find(kFsconfig, a[1]);
    case Family::landlock: return find(kLandlock, a[1]);
    case Family::kcmp: return find(kKcmp, a[2]);
    case Family::reboot: return find(kReboot, a[2]);
    case Family::sysfs: return find(kSysfs, a[0]);
    case Family::ring_enter: return find(kRingEnter, a[3] & (8 | 64));
    case Family::clone:
      return find(kClone, ((a[0] & kCloneParent) != 0 ? 1U : 0U) | ((a[0] & kCloneChild) != 0 ? 2U : 0U));
  }
  return {0, {}, false};
}

}  // namespace comex::syscalls
