// Rows of the system-call table: sockets, System V and POSIX IPC, time, keys, asynchronous I/O and the machine as a
// whole. See syscall_table.h for what a row says and syscall_memory.h for the words.
#pragma once

#include "run/syscalls/syscall_memory.h"
#include "run/syscalls/syscall_table.h"

namespace comex::syscalls::rows {

using enum Class;
using enum Trait;
using enum Cut;
using enum Width;

constexpr Entry kSockets[] = {
    {41, "socket", plain},
    {42, "connect", plain, {in_by(1, 2, signed_int)}, blocks | repeatable},
    {43, "accept", plain, {length(2), address_out(1, 2)}, blocks},
    {44, "sendto", plain, {in_by(1, 2), in_by(4, 5, signed_int)}, blocks, by_socket},
    {45, "recvfrom", plain, {out_by(1, 2), length(5), address_out(4, 5)}, blocks, by_socket},
    {46, "sendmsg", plain, {as(Extent::message, Direction::in, 1)}, blocks, by_socket},
    {47, "recvmsg", plain, {as(Extent::message, Direction::out, 1)}, blocks, by_socket},
    {48, "shutdown", plain},
    {49, "bind", plain, {in_by(1, 2, signed_int)}, repeatable},
    {50, "listen", plain},
    {51, "getsockname", plain, {length(2), address_out(1, 2)}, repeatable},
    {52, "getpeername", plain, {length(2), address_out(1, 2)}, repeatable},
    {53, "socketpair", plain, {out(3, 8)}, repeatable},
    {54, "setsockopt", plain, {in_by(3, 4, signed_int)}, repeatable, never, Family::setsockopt},
    {55, "getsockopt", plain, {length(4)}, none, never, Family::getsockopt},
    {288, "accept4", plain, {length(2), address_out(1, 2)}, blocks},
    {299,
     "recvmmsg",
     plain,
     {as(Extent::messages, Direction::out, 1, 2, unsigned_int), inout(4, bytes_of::timespec)},
     blocks,
     by_socket},
    {307, "sendmmsg", plain, {as(Extent::messages, Direction::in, 1, 2, unsigned_int)}, blocks, by_socket},
};

constexpr Entry kIpc[] = {
    {29, "shmget", plain},
    {30, "shmat", layout},
    {31, "shmctl", plain, {}, repeatable, never, Family::shmctl},
    {64, "semget", plain},
    {65, "semop", plain, {in_array(1, 2, 6, unsigned_int, 32000)}, blocks | repeatable},
    {66, "semctl", plain, {}, repeatable, never, Family::semctl},
    {67, "shmdt", layout},
    {68, "msgget", plain},
    {69, "msgsnd", plain, {in_by(1, 2, word, 8)}, blocks | repeatable},
    {70, "msgrcv", plain, {out_by(1, 2, word, 8)}, blocks},
    {71, "msgctl", plain, {}, repeatable, never, Family::msgctl},
    {220,
     "semtimedop",
     plain,
     {in_array(1, 2, 6, unsigned_int, 32000), in(3, bytes_of::timespec)},
     blocks | repeatable},
    {240, "mq_open", plain, {path(0), in(3, bytes_of::mq_attr)}, repeatable},
    {241, "mq_unlink", plain, {path(0)}, repeatable},
    {242, "mq_timedsend", plain, {in_by(1, 2), in(4, bytes_of::timespec)}, blocks | repeatable},
    {243, "mq_timedreceive", plain, {out_by(1, 2), out(3, 4), in(4, bytes_of::timespec)}, blocks},
    {244, "mq_notify", plain, {as(Extent::event, Direction::in, 1)}, repeatable},
    {245, "mq_getsetattr", plain, {in(1, bytes_of::mq_attr), out(2, bytes_of::mq_attr)}},
};

constexpr Entry kTime[] = {
    {35, "nanosleep", plain, {in(0, bytes_of::timespec), out(1, bytes_of::timespec)}, blocks},
    {36, "getitimer", plain, {out(1, bytes_of::itimer)}, repeatable},
    {37, "alarm", plain},
    {38, "setitimer", plain, {in(1, bytes_of::itimer), out(2, bytes_of::itimer)}},
    {96, "gettimeofday", plain, {out(0, bytes_of::timeval), out(1, 8)}, repeatable},
    {159, "adjtimex", plain, {inout(0, bytes_of::timex)}},
    {164, "settimeofday", plain, {in(0, bytes_of::timeval), in(1, 8)}, repeatable},
    {201, "time", plain, {out(0, 8)}, repeatable},
    {222, "timer_create", plain, {in(1, bytes_of::sigevent), inout(2, 4)}, repeatable},
    {223, "timer_settime", plain, {in(2, bytes_of::itimer), out(3, bytes_of::itimer)}},
    {224, "timer_gettime", plain, {out(1, bytes_of::itimer)}, repeatable},
    {225, "timer_getoverrun", plain},
    {226, "timer_delete", plain},
    {227, "clock_settime", plain, {in(1, bytes_of::timespec)}, repeatable},
    {228, "clock_gettime", plain, {out(1, bytes_of::timespec)}, repeatable},
    {229, "clock_getres", plain, {out(1, bytes_of::timespec)}, repeatable},
    {230, "clock_nanosleep", plain, {in(2, bytes_of::timespec), out(3, bytes_of::timespec)}, blocks},
    {283, "timerfd_create", plain},
    {286, "timerfd_settime", plain, {in(2, bytes_of::itimer), out(3, bytes_of::itimer)}},
    {287, "timerfd_gettime", plain, {out(1, bytes_of::itimer)}, repeatable},
    {305, "clock_adjtime", plain, {inout(1, bytes_of::timex)}},
};

constexpr Entry kSystem[] = {
    {63, "uname", plain, {out(0, bytes_of::utsname)}, repeatable},
    {99, "sysinfo", plain, {out(0, bytes_of::sysinfo)}, repeatable},
    {103, "syslog", plain, {}, blocks, never, Family::syslog},
    {134, "uselib", plain, {path(0)}},
    {153, "vhangup", plain},
    {156, "_sysctl", plain},
    {163, "acct", plain, {path(0)}, repeatable},
    {167, "swapon", plain, {path(0)}, repeatable},
    {168, "swapoff", plain, {path(0)}, blocks | repeatable},
    {169, "reboot", plain, {}, none, never, Family::reboot},
    {170, "sethostname", plain, {in_by(0, 1, signed_int)}, repeatable},
    {171, "setdomainname", plain, {in_by(0, 1, signed_int)}, repeatable},
    {172, "iopl", plain},
    {173, "ioperm", plain},
    {174, "create_module", plain},
    {175, "init_module", plain, {in_by(0, 1), string(2, 65536)}, repeatable},
    {176, "delete_module", plain, {string(0, 64)}, repeatable},
    {177, "get_kernel_syms", plain},
    {178, "query_module", plain},
    {179, "quotactl", plain, {path(1)}, repeatable, never, Family::quotactl},
    {180, "nfsservctl", plain},
    {181, "getpmsg", plain},
    {182, "putpmsg", plain},
    {183, "afs_syscall", plain},
    {184, "tuxcall", plain},
    {185, "security", plain},
    {236, "vserver", plain},
    {246, "kexec_load", plain, {guess(2, 32)}, repeatable},
    {248, "add_key", plain, {string(0, 32), string(1, 4096), in_by(2, 3)}, repeatable},
    {249, "request_key", plain, {string(0, 32), string(1, 4096), string(2, 4096)}, repeatable},
    {250, "keyctl", plain, {}, none, never, Family::keyctl},
    {313, "finit_module", plain, {string(1, 65536)}, repeatable},
    {318, "getrandom", plain, {out_by(0, 1)}, none, repeated},
    {320, "kexec_file_load", plain, {in_by(3, 2)}, repeatable},
    // What lies behind the attributes depends on the command and, for maps, on how the map was made.
    {321, "bpf", plain, {inout_by(1, 2, unsigned_int), guess(1, 128)}},
    {443, "quotactl_fd", plain, {}, repeatable, never, Family::quotactl_fd},
    {444, "landlock_create_ruleset", plain, {in_by(0, 1)}, repeatable},
    {445, "landlock_add_rule", plain, {}, repeatable, never, Family::landlock},
    {446, "landlock_restrict_self", plain},
    {459, "lsm_get_self_attr", plain, {length(2), out_socklen(1, 2)}, repeatable},
    {460, "lsm_set_self_attr", plain, {in_by(1, 2, unsigned_int)}, repeatable},
    {461, "lsm_list_modules", plain, {length(1), out_socklen(0, 1)}, repeatable},
};

// Memory is read and written while the program goes on.
constexpr Entry kAsynchronous[] = {
    {206, "io_setup", lasting, {inout(1, 8)}},
    {207, "io_destroy", lasting, {}, blocks},
    {208, "io_getevents", lasting, {out_array(3, 2, bytes_of::io_event), in(4, bytes_of::timespec)}, blocks, shorter},
    {209, "io_submit", lasting, {as(Extent::aio, Direction::inout, 2, 1)}, blocks},
    {210, "io_cancel", lasting, {in(1, bytes_of::iocb), out(2, bytes_of::io_event)}},
    // From memory into a pipe, or from a pipe into memory, as the descriptor is.
    {278, "vmsplice", lasting, {as(Extent::iovec, Direction::inout, 1, 2)}, blocks},
    {298, "perf_event_open", lasting, {self_sized(Direction::inout, 0, 4, 64), guess(0, 64)}},
    {333,
     "io_pgetevents",
     lasting,
     {out_array(3, 2, bytes_of::io_event), in(4, bytes_of::timespec), as(Extent::mask_pair, Direction::in, 5)},
     blocks,
     shorter},
    {425, "io_uring_setup", lasting, {inout(1, 120)}},
    {426, "io_uring_enter", lasting, {}, blocks, never, Family::ring_enter},
    {427, "io_uring_register", lasting, {guess(2, 64)}},
};

}  // namespace comex::syscalls::rows
