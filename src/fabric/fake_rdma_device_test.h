// An RDMA device that the test plays: what is posted is written down, and done when the test says so.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/rdma_library.h"
#include "fabric/rdma_stream.h"

namespace comex {

// Thread safety: all functions from any thread. Outlives what is made on it.
class FakeRdmaDevice {
 public:
  FakeRdmaDevice() {
    context_.device = this;
    context_.ops.post_send = [](ibv_qp* pair, ibv_send_wr* first, ibv_send_wr**) { return of(pair).post(first); };
    context_.ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; };
    context_.ops.poll_cq = [](ibv_cq* queue, int most, ibv_wc* into) { return of(queue).poll(most, into); };
    context_.ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
    make_queues();
    make_memory();
  }
  FakeRdmaDevice(const FakeRdmaDevice&) = delete;
  FakeRdmaDevice& operator=(const FakeRdmaDevice&) = delete;

  [[nodiscard]] std::shared_ptr<RdmaDomain> domain() const { return std::make_shared<RdmaDomain>(library_); }
  // Null: it was refused.
  std::unique_ptr<RdmaStream> connect(std::shared_ptr<RdmaDomain> domain, RdmaEndpoint::Shape shape) {
    auto* const id = new rdma_cm_id{};
    id->verbs = &context_;
    auto endpoint = RdmaEndpoint::adopt(id, std::move(domain), shape);
    return endpoint ? RdmaStream::make(*endpoint, shape.receives).value() : nullptr;
  }

  // The ids of requests that have been posted, in that order.
  [[nodiscard]] std::vector<std::uint64_t> posted() {
    const std::lock_guard lock(mutex_);
    return posted_;
  }
  void finish(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    finished_.push_back(id);
  }
  // While a request is posted.
  std::function<void()> when_posted;
  std::atomic<unsigned> pairs{0};  // there are

 private:
  struct Context : ibv_context {
    FakeRdmaDevice* device = nullptr;
  };
  template <typename Thing>
  static FakeRdmaDevice& of(const Thing* thing) {
    return *static_cast<Context*>(thing->context)->device;
  }

  int post(const ibv_send_wr* first) {
    if (when_posted) when_posted();
    const std::lock_guard lock(mutex_);
    for (; first != nullptr; first = first->next) posted_.push_back(first->wr_id);
    return 0;
  }
  int poll(int most, ibv_wc* into) {
    const std::lock_guard lock(mutex_);
    int count = 0;
    for (; count < most && !finished_.empty(); ++count) {
      into[count] = ibv_wc{};
      into[count].wr_id = finished_.front();
      finished_.pop_front();
    }
    return count;
  }

  void make_queues() {
    library_.create_comp_channel = [](ibv_context* context) {
      auto* const made = new ibv_comp_channel{};
      made->context = context;
      made->fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      return made;
    };
    library_.destroy_comp_channel = [](ibv_comp_channel* channel) { return ::close(channel->fd), delete channel, 0; };
    library_.create_cq = [](ibv_context* context, int, void*, ibv_comp_channel*, int) {
      auto* const made = new ibv_cq{};
      made->context = context;
      return made;
    };
    library_.destroy_cq = [](ibv_cq* queue) { return delete queue, 0; };
    library_.get_cq_event = [](ibv_comp_channel*, ibv_cq**, void**) { return -1; };
    library_.create_qp = [](ibv_pd* domain, ibv_qp_init_attr*) {
      auto* const made = new ibv_qp{};
      made->context = domain->context;
      ++of(made).pairs;
      return made;
    };
    library_.destroy_qp = [](ibv_qp* pair) { return --of(pair).pairs, delete pair, 0; };
    library_.init_qp_attr = [](rdma_cm_id*, ibv_qp_attr*, int*) { return 0; };
    library_.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return 0; };
    library_.disconnect = [](rdma_cm_id*) { return 0; };
    library_.destroy_id = [](rdma_cm_id* id) { return delete id, 0; };
  }
  void make_memory() {
    library_.query_device = [](ibv_context*, ibv_device_attr* device) {
      *device = ibv_device_attr{};
      device->max_sge = 8;
      return 0;
    };
    library_.alloc_pd = [](ibv_context* context) {
      auto* const made = new ibv_pd{};
      made->context = context;
      return made;
    };
    library_.dealloc_pd = [](ibv_pd* domain) { return delete domain, 0; };
    library_.reg_mr = [](ibv_pd* domain, void*, std::size_t, int) {
      auto* const made = new ibv_mr{};
      made->context = domain->context;
      return made;
    };
    library_.dereg_mr = [](ibv_mr* region) { return delete region, 0; };
  }

  RdmaLibrary library_;
  Context context_{};
  std::mutex mutex_;  // guards all below
  std::vector<std::uint64_t> posted_;
  std::deque<std::uint64_t> finished_;
};

}  // namespace comex
