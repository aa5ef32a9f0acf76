// Sockets: TCP, UDP and Unix, with addresses, control messages and descriptors.
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "syscalls/suite.h"

using namespace suite;

namespace {

// A socket bound to a free port of the loopback interface; its address goes to `address`, in evicted memory as all is.
int bound(int type, sockaddr_in*& address) {
  const int fd = static_cast<int>(must(socket(AF_INET, type | SOCK_CLOEXEC, 0), "socket"));
  address = place<sockaddr_in>();
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EVICTED(bind(fd, reinterpret_cast<sockaddr*>(address), sizeof *address));
  auto* length = place<socklen_t>();
  *length = sizeof *address;
  EVICTED(getsockname(fd, reinterpret_cast<sockaddr*>(address), length));
  check(*length == sizeof *address && address->sin_port != 0, "getsockname");
  return fd;
}

struct Pair {
  int a, b;
};

Pair tcp_pair() {
  sockaddr_in* address = nullptr;
  const int listener = bound(SOCK_STREAM, address);
  must(listen(listener, 1), "listen");
  const int client = static_cast<int>(must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  EVICTED(connect(client, reinterpret_cast<sockaddr*>(address), sizeof *address));
  auto* peer = place<sockaddr_in>();
  auto* length = place<socklen_t>();
  *length = sizeof *peer;
  const int server =
      static_cast<int>(EVICTED(accept4(listener, reinterpret_cast<sockaddr*>(peer), length, SOCK_CLOEXEC)));
  check(peer->sin_family == AF_INET && *length == sizeof *peer, "accept4");
  close(listener);
  return {client, server};
}

Pair unix_pair(int type) {
  int* ends = place<int>(2);
  EVICTED(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends));
  return {ends[0], ends[1]};
}

void send_datagram(void* fd) {
  static char data[5000];
  fill(data, sizeof data, 21);
  check(send(*static_cast<int*>(fd), data, sizeof data, 0) == sizeof data, "send");
}

msghdr* make_message(std::uint32_t seed, std::size_t control) {
  auto* message = place<msghdr>();
  auto* vectors = place<iovec>(2);
  for (int i = 0; i < 2; ++i) {
    vectors[i] = {place<char>(2500), 2500};
    if (seed != 0) fill(vectors[i].iov_base, 2500, seed + i);
  }
  message->msg_iov = vectors;
  message->msg_iovlen = 2;
  if (control > 0) {
    message->msg_control = place<std::uint64_t>(control / 8);
    message->msg_controllen = control;
  }
  return message;
}

std::uint32_t digest_of(const msghdr* message) {
  return digest(message->msg_iov[0].iov_base, 2500) * 31 + digest(message->msg_iov[1].iov_base, 2500);
}

}  // namespace

CASE(tcp_send_and_receive) {
  const Pair pair = tcp_pair();
  char *data = place<char>(9000), *back = place<char>(9000);
  fill(data, 9000, 20);
  const long sent = EVICTED(send(pair.a, data, 9000, 0));
  const long n = EVICTED(recv(pair.b, back, 9000, MSG_WAITALL));
  check(std::memcmp(data, back, 9000) == 0, "other data came back");
  result("%ld sent, %ld received", sent, n);
  close(pair.a), close(pair.b);
}

CASE(tcp_receive_while_blocked) {
  Pair pair = tcp_pair();
  char* back = place<char>(5000);
  Later sender(send_datagram, &pair.a);
  const long n = EVICTED(recv(pair.b, back, 5000, MSG_WAITALL));
  result("%ld bytes, digest %08x", n, digest(back, 5000));
  close(pair.a), close(pair.b);
}

CASE(tcp_getpeername) {
  const Pair pair = tcp_pair();
  auto *mine = place<sockaddr_in>(), *theirs = place<sockaddr_in>();
  auto* length = place<socklen_t>();
  *length = sizeof *mine;
  EVICTED(getsockname(pair.a, reinterpret_cast<sockaddr*>(mine), length));
  *length = sizeof *theirs;
  EVICTED(getpeername(pair.b, reinterpret_cast<sockaddr*>(theirs), length));
  check(mine->sin_port == theirs->sin_port, "ports differ");
  result("the same port");
  close(pair.a), close(pair.b);
}

CASE(udp_with_addresses) {
  sockaddr_in *one = nullptr, *two = nullptr, *from = place<sockaddr_in>();
  const int a = bound(SOCK_DGRAM, one), b = bound(SOCK_DGRAM, two);
  char *data = place<char>(6000), *back = place<char>(6000);
  fill(data, 6000, 22);
  const long sent = EVICTED(sendto(a, data, 6000, 0, reinterpret_cast<sockaddr*>(two), sizeof *two));
  auto* length = place<socklen_t>();
  *length = sizeof *from;
  const long n = EVICTED(recvfrom(b, back, 6000, 0, reinterpret_cast<sockaddr*>(from), length));
  check(from->sin_port == one->sin_port, "the sender is another");
  result("%ld sent, %ld received, digest %08x", sent, n, digest(back, 6000));
  close(a), close(b);
}

CASE(unix_datagram_while_blocked) {
  Pair pair = unix_pair(SOCK_DGRAM);
  char* back = place<char>(6000);
  Later sender(send_datagram, &pair.a);
  const long n = EVICTED(recv(pair.b, back, 6000, 0));
  result("%ld bytes, digest %08x", n, digest(back, 5000));
  close(pair.a), close(pair.b);
}

CASE(unix_descriptor_passing) {
  const Pair pair = unix_pair(SOCK_STREAM);
  const int file = make_file("passed", 3000, 23);
  msghdr* message = make_message(24, CMSG_SPACE(sizeof(int)));
  cmsghdr* header = CMSG_FIRSTHDR(message);
  *header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  const long sent = EVICTED(sendmsg(pair.a, message, 0));
  msghdr* got = make_message(0, CMSG_SPACE(sizeof(int)));
  const long n = EVICTED(recvmsg(pair.b, got, MSG_WAITALL));
  int passed = -1;
  check(CMSG_FIRSTHDR(got) != nullptr, "no descriptor came");
  std::memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(got)), sizeof passed);
  char* content = place<char>(3000);
  EVICTED(pread(passed, content, 3000, 0));
  check(digest_of(message) == digest_of(got), "other data came back");
  result("%ld sent, %ld received, file digest %08x", sent, n, digest(content, 3000));
  for (const int fd : {pair.a, pair.b, file, passed}) close(fd);
}

CASE(many_messages) {
  const Pair pair = unix_pair(SOCK_DGRAM);
  auto *out = place<mmsghdr>(3), *in = place<mmsghdr>(3);
  for (int i = 0; i < 3; ++i) {
    out[i].msg_hdr = *make_message(25 + i, 0);
    in[i].msg_hdr = *make_message(0, 0);
  }
  auto* time = place<timespec>();
  time->tv_sec = 10;
  const long sent = EVICTED(sendmmsg(pair.a, out, 3, 0));
  const long n = EVICTED(recvmmsg(pair.b, in, 3, 0, time));
  for (int i = 0; i < 3; ++i) check(digest_of(&out[i].msg_hdr) == digest_of(&in[i].msg_hdr), "other data came back");
  result("%ld sent, %ld received, %u bytes", sent, n, in[2].msg_len);
  close(pair.a), close(pair.b);
}

CASE(unix_socket_by_path) {
  const int listener = static_cast<int>(must(socket(AF_UNIX, SOCK_STREAM, 0), "socket"));
  auto* address = place<sockaddr_un>();
  address->sun_family = AF_UNIX;
  std::strncpy(address->sun_path, (folder() + "/socket").c_str(), sizeof address->sun_path - 1);
  EVICTED(bind(listener, reinterpret_cast<sockaddr*>(address), sizeof *address));
  must(listen(listener, 1), "listen");
  const int client = static_cast<int>(must(socket(AF_UNIX, SOCK_STREAM, 0), "socket"));
  EVICTED(connect(client, reinterpret_cast<sockaddr*>(address), sizeof *address));
  auto* length = place<socklen_t>();
  *length = sizeof *address;
  const int server = static_cast<int>(EVICTED(syscall(SYS_accept, listener, place<sockaddr_un>(), length)));
  auto* credentials = place<ucred>();
  *length = sizeof *credentials;
  EVICTED(getsockopt(server, SOL_SOCKET, SO_PEERCRED, credentials, length));
  check(credentials->pid == getpid(), "another process");
  result("connected, %u bytes of credentials", *length);
  for (const int fd : {listener, client, server}) close(fd);
}

CASE(socket_options) {
  const int fd = static_cast<int>(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  auto* linger_ = place<linger>();
  linger_->l_onoff = 1;
  linger_->l_linger = 7;
  EVICTED(setsockopt(fd, SOL_SOCKET, SO_LINGER, linger_, sizeof *linger_));
  auto* back = place<linger>();
  auto* length = place<socklen_t>();
  *length = sizeof *back;
  EVICTED(getsockopt(fd, SOL_SOCKET, SO_LINGER, back, length));
  result("linger %d, %u bytes", back->l_linger, *length);
  close(fd);
}

CASE(socket_ioctls) {
  const int fd = static_cast<int>(must(socket(AF_INET, SOCK_DGRAM, 0), "socket"));
  auto* request = place<ifreq>();
  std::strcpy(request->ifr_name, "lo");
  EVICTED_OR_SKIP(ioctl(fd, SIOCGIFINDEX, request));
  auto* list = place<ifconf>();
  list->ifc_len = 40 * sizeof(ifreq);
  list->ifc_buf = reinterpret_cast<char*>(place<ifreq>(40));
  EVICTED(ioctl(fd, SIOCGIFCONF, list));
  check(list->ifc_len > 0, "no interfaces");
  int* on = place<int>();
  *on = 1;
  EVICTED(ioctl(fd, FIONBIO, on));
  result("interface %d", request->ifr_ifindex);
  close(fd);
}
