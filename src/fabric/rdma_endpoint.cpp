#include "fabric/rdma_endpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "base/wait_ready.h"
#include "fabric/rdma_devices.h"

namespace comex {
namespace {

// The most there are; Soft-RoCE then never gives up by itself. It need not: whoever waits has a deadline, and drops the
// connection when it has passed. A device that gives up earlier makes a lost node of one that stood still for a second.
constexpr std::uint8_t kRetries = 7;
constexpr std::uint8_t kRetriesNotReady = 7;  // for ever: a peer that has no buffer posted is slow, not gone
constexpr std::uint32_t kInline = 128;        // asked for; a header and a small body
constexpr std::uint8_t kReadsAtOnce = 16;     // on one connection

void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

Error refused(const rdma_cm_event& event, const std::string& peer) {
  // The node's own words, if it said why.
  const auto* const text = static_cast<const char*>(event.param.conn.private_data);
  const std::size_t size = text != nullptr ? strnlen(text, event.param.conn.private_data_len) : 0;
  if (event.event == RDMA_CM_EVENT_REJECTED && size > 0) {
    return Error{Errc::disconnected, fmt::format("{} refuses the connection: {}", peer, std::string(text, size))};
  }
  if (event.event == RDMA_CM_EVENT_REJECTED) {
    return Error{Errc::disconnected, fmt::format("{} refuses the connection: is `comex serve --rdma` there?", peer)};
  }
  errno = event.status < 0 ? -event.status : event.event == RDMA_CM_EVENT_UNREACHABLE ? EHOSTUNREACH : EIO;
  Error error = rdma_error(fmt::format("cannot connect to {}", peer));
  error.code = Errc::disconnected;
  return error;
}

}  // namespace

std::uint8_t rdma_ack_timeout(Millis timeout) {
  // Devices may wait for up to four times as long: about half of the time nominally. Beyond a quarter of a second,
  // packets that are lost would be sent again too late.
  constexpr std::uint8_t kLeast = 8;
  constexpr std::uint8_t kMost = 16;
  const double each = static_cast<double>(timeout.count()) * 1e6 / 2 / kRetries;
  std::uint8_t exponent = kLeast;
  while (exponent < kMost && 4096.0 * static_cast<double>(1ULL << (exponent + 1)) <= each) ++exponent;
  return exponent;
}

// --- client ---

Expected<std::shared_ptr<RdmaEndpoint>> RdmaEndpoint::reach(const Url& url, sockaddr& to,
                                                            std::shared_ptr<RdmaDomain> domain, Shape shape,
                                                            Millis timeout, const Deadline& deadline) {
  std::shared_ptr<RdmaEndpoint> endpoint(new RdmaEndpoint(std::move(domain)));
  endpoint->peer_ = url.text();
  if (auto found = endpoint->find_way(url, to, timeout, deadline); !found) return std::move(found).error();
  if (auto made = endpoint->make_queues(shape); !made) return std::move(made).error();
  endpoint->watched_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  for (const int fd : {endpoint->notices_->fd, endpoint->events_->fd}) {
    if (!endpoint->watched_ || ::epoll_ctl(endpoint->watched_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return system_error("cannot watch a connection");
    }
  }
  return endpoint;
}

Expected<void> RdmaEndpoint::find_way(const Url& url, sockaddr& to, Millis timeout, const Deadline& deadline) {
  events_ = library_.create_event_channel();
  if (events_ == nullptr) {
    return Error{Errc::unsupported, "this machine has no RDMA device (no /dev/infiniband/rdma_cm); use tcp://"};
  }
  set_nonblocking(events_->fd);
  if (library_.create_id(events_, &id_, this, RDMA_PS_TCP) != 0) return rdma_error("cannot make an RDMA connection");
  // Before the way is looked for, which fixes it.
  std::uint8_t exponent = rdma_ack_timeout(timeout);
  (void)library_.set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof exponent);
  const int patience = std::max(1, deadline.remaining_ms());
  sockaddr_storage from{};
  if (!url.device.empty()) {
    auto source = rdma_source(url, to);
    if (!source) return std::move(source).error();
    from = *source;
  }
  if (url.tos) {
    std::uint8_t service = *url.tos;
    (void)library_.set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service, sizeof service);
  }
  auto* const source = url.device.empty() ? nullptr : reinterpret_cast<sockaddr*>(&from);
  if (library_.resolve_addr(id_, source, &to, patience) != 0) {
    return rdma_error(fmt::format("cannot reach {}", peer_));
  }
  if (auto done = await(RDMA_CM_EVENT_ADDR_RESOLVED, peer_, deadline); !done) return done;
  if (library_.resolve_route(id_, patience) != 0) return rdma_error(fmt::format("no route to {}", peer_));
  return await(RDMA_CM_EVENT_ROUTE_RESOLVED, peer_, deadline);
}

Expected<void> RdmaEndpoint::connect(const RdmaCall& call, const Deadline& deadline) {
  rdma_conn_param param{};
  param.private_data = &call;
  param.private_data_len = sizeof call;
  param.initiator_depth = reads_at_once();
  param.flow_control = 1;
  param.retry_count = kRetries;
  param.rnr_retry_count = kRetriesNotReady;
  if (library_.connect(id_, &param) != 0) return rdma_error(fmt::format("cannot connect to {}", peer_));
  return await(RDMA_CM_EVENT_ESTABLISHED, peer_, deadline);
}

Expected<void> RdmaEndpoint::await(rdma_cm_event_type wanted, const std::string& peer, const Deadline& deadline) {
  rdma_cm_event* event = nullptr;
  while (library_.get_cm_event(events_, &event) != 0) {
    if (errno != EAGAIN && errno != EINTR) return rdma_error("cannot hear of a connection");
    if (!wait_ready(events_->fd, POLLIN, deadline)) {
      return Error{Errc::timeout, fmt::format("{} did not answer in time", peer)};
    }
  }
  Expected<void> result;
  if (event->event != wanted) result = refused(*event, peer);
  library_.ack_cm_event(event);
  return result;
}

// --- node ---

Expected<std::shared_ptr<RdmaEndpoint>> RdmaEndpoint::adopt(rdma_cm_id* id, std::shared_ptr<RdmaDomain> domain,
                                                            Shape shape) {
  std::shared_ptr<RdmaEndpoint> endpoint(new RdmaEndpoint(std::move(domain)));
  endpoint->id_ = id;
  auto made = endpoint->make_queues(shape);
  if (made && !endpoint->advance(IBV_QPS_INIT, 0)) made = rdma_error("cannot prepare a connection");
  if (!made) {
    endpoint->disown();
    return std::move(made).error();
  }
  id->context = endpoint.get();
  return endpoint;
}

void RdmaEndpoint::disown() noexcept {
  const std::lock_guard lock(mutex_);
  if (qp_ != nullptr) library_.destroy_qp(qp_);
  qp_ = nullptr;
  id_->context = nullptr;
  id_ = nullptr;
}

Expected<void> RdmaEndpoint::accept(const rdma_conn_param& asked) {
  rdma_conn_param param{};
  param.responder_resources = std::min(asked.responder_resources, reads_at_once());
  param.flow_control = 1;
  param.rnr_retry_count = kRetriesNotReady;
  param.qp_num = qp_->qp_num;
  if (!advance(IBV_QPS_RTR, param.responder_resources) || !advance(IBV_QPS_RTS, 0) ||
      library_.accept(id_, &param) != 0) {
    return rdma_error("cannot accept a connection");
  }
  return {};
}

// The connection manager knows what belongs to each state.
bool RdmaEndpoint::advance(ibv_qp_state state, std::uint8_t reads) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int which = 0;
  if (library_.init_qp_attr(id_, &attributes, &which) != 0) return false;
  attributes.qp_access_flags = 0;
  if (state == IBV_QPS_RTR) attributes.max_dest_rd_atomic = reads;
  if (state == IBV_QPS_RTS) attributes.max_rd_atomic = reads;
  return library_.modify_qp(qp_, &attributes, which) == 0;
}

Expected<void> RdmaEndpoint::open() {
  const std::lock_guard lock(mutex_);
  ibv_qp_attr attributes{};
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (qp_ == nullptr || library_.modify_qp(qp_, &attributes, IBV_QP_ACCESS_FLAGS) != 0) {
    return rdma_error("cannot open a lane");
  }
  return {};
}

// --- both ---

std::uint8_t RdmaEndpoint::reads_at_once() const {
  ibv_device_attr device{};
  if (library_.query_device(id_->verbs, &device) != 0) return 1;
  const int most = std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom);
  return static_cast<std::uint8_t>(std::clamp<int>(most, 1, kReadsAtOnce));
}

// Some devices take fewer places with a read.
std::uint32_t RdmaEndpoint::places_at_once(std::uint32_t wanted) const {
  ibv_device_attr device{};
  if (wanted <= 1 || library_.query_device(id_->verbs, &device) != 0) return 1;
  const int most = device.max_sge_rd > 0 ? std::min(device.max_sge, device.max_sge_rd) : device.max_sge;
  return std::clamp(static_cast<std::uint32_t>(std::max(most, 1)), 1U, wanted);
}

Expected<void> RdmaEndpoint::make_queues(Shape shape) {
  auto domain = domain_->on(id_->verbs);
  if (!domain) return std::move(domain).error();
  notices_ = library_.create_comp_channel(id_->verbs);
  if (notices_ == nullptr) return rdma_error("cannot make a completion channel");
  set_nonblocking(notices_->fd);
  const int entries = static_cast<int>(shape.sends + shape.receives);
  completions_ = library_.create_cq(id_->verbs, entries, nullptr, notices_, 0);
  if (completions_ == nullptr) return rdma_error("cannot make a completion queue");
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = completions_;
  most_places_ = places_at_once(shape.places);
  wanted.cap = {.max_send_wr = shape.sends,
                .max_recv_wr = shape.receives,
                .max_send_sge = most_places_,
                .max_recv_sge = 1,
                .max_inline_data = kInline};
  ibv_qp_init_attr given = wanted;
  qp_ = make_pair(*domain, given);
  if (qp_ == nullptr) {
    wanted.cap.max_inline_data = 0;  // not every device can
    given = wanted;
    qp_ = make_pair(*domain, given);
  }
  if (qp_ == nullptr && most_places_ > 1) {
    wanted.cap.max_send_sge = most_places_ = 1;  // nor so many places with each of so many sends
    given = wanted;
    qp_ = make_pair(*domain, given);
  }
  if (qp_ == nullptr) return rdma_error("cannot make a queue pair");
  most_inline_ = given.cap.max_inline_data;
  return {};
}

// At the client the connection manager leads it through its states, at the node we do: see adopt().
ibv_qp* RdmaEndpoint::make_pair(ibv_pd* domain, ibv_qp_init_attr& wanted) {
  if (events_ == nullptr) return library_.create_qp(domain, &wanted);
  return library_.create_own_qp(id_, domain, &wanted) == 0 ? id_->qp : nullptr;
}

bool RdmaEndpoint::post(ibv_send_wr& first) noexcept {
  const std::lock_guard lock(mutex_);
  ibv_send_wr* failed = nullptr;
  return qp_ != nullptr && ibv_post_send(qp_, &first, &failed) == 0;
}

bool RdmaEndpoint::post(ibv_recv_wr& first) noexcept {
  const std::lock_guard lock(mutex_);
  ibv_recv_wr* failed = nullptr;
  return qp_ != nullptr && ibv_post_recv(qp_, &first, &failed) == 0;
}

void RdmaEndpoint::arm() noexcept {
  ibv_cq* which = nullptr;
  void* context = nullptr;
  unsigned events = 0;
  while (library_.get_cq_event(notices_, &which, &context) == 0) ++events;
  if (events > 0) library_.ack_cq_events(completions_, events);
  ibv_req_notify_cq(completions_, 0);
}

bool RdmaEndpoint::hear() noexcept {
  rdma_cm_event* event = nullptr;
  while (!ended_ && events_ != nullptr && library_.get_cm_event(events_, &event) == 0) {
    // Nothing good comes after the connection stands.
    ended_ = event->event != RDMA_CM_EVENT_ADDR_CHANGE;
    library_.ack_cm_event(event);
  }
  return !ended_;
}

void RdmaEndpoint::cut() noexcept {
  const std::lock_guard lock(mutex_);
  if (qp_ == nullptr) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  library_.modify_qp(qp_, &attributes, IBV_QP_STATE);
}

void RdmaEndpoint::drop() noexcept {
  const std::lock_guard lock(mutex_);
  if (qp_ == nullptr) return;
  library_.disconnect(id_);
  if (events_ != nullptr) {
    library_.destroy_own_qp(id_);
  } else {
    library_.destroy_qp(qp_);
  }
  qp_ = nullptr;
}

RdmaEndpoint::~RdmaEndpoint() {
  drop();
  if (completions_ != nullptr) library_.destroy_cq(completions_);
  if (notices_ != nullptr) library_.destroy_comp_channel(notices_);
  if (id_ != nullptr) library_.destroy_id(id_);
  if (events_ != nullptr) library_.destroy_event_channel(events_);
}

}  // namespace comex
