// librdmacm and libibverbs, loaded when the first rdma:// link or listener is made. Nobody else pays for them: they
// bring libnl and a provider for each kind of device, and are not there on every machine.
//
// Members have the names of the functions without their prefix; of those of the same name, the connection manager's has
// `own` in it. What verbs.h defines inline (ibv_post_send,
// ibv_poll_cq, ibv_req_notify_cq) goes through the device's context and is called as it is.
//
// Thread safety: all. Not for the fault path, and not for the inside of programs: see "RDMA and programs" in
// docs/design-notes.md.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/expected.h"

namespace comex {

#define COMEX_RDMA_FUNCTIONS(X)                        \
  X(create_event_channel, rdma_create_event_channel)   \
  X(destroy_event_channel, rdma_destroy_event_channel) \
  X(create_id, rdma_create_id)                         \
  X(destroy_id, rdma_destroy_id)                       \
  X(bind_addr, rdma_bind_addr)                         \
  X(listen, rdma_listen)                               \
  X(resolve_addr, rdma_resolve_addr)                   \
  X(resolve_route, rdma_resolve_route)                 \
  X(connect, rdma_connect)                             \
  X(accept, rdma_accept)                               \
  X(reject, rdma_reject)                               \
  X(disconnect, rdma_disconnect)                       \
  X(get_cm_event, rdma_get_cm_event)                   \
  X(ack_cm_event, rdma_ack_cm_event)                   \
  X(create_own_qp, rdma_create_qp)                     \
  X(destroy_own_qp, rdma_destroy_qp)                   \
  X(init_qp_attr, rdma_init_qp_attr)                   \
  X(create_qp, ibv_create_qp)                          \
  X(destroy_qp, ibv_destroy_qp)                        \
  X(set_option, rdma_set_option)                       \
  X(get_src_port, rdma_get_src_port)                   \
  X(alloc_pd, ibv_alloc_pd)                            \
  X(dealloc_pd, ibv_dealloc_pd)                        \
  X(create_comp_channel, ibv_create_comp_channel)      \
  X(destroy_comp_channel, ibv_destroy_comp_channel)    \
  X(create_cq, ibv_create_cq)                          \
  X(destroy_cq, ibv_destroy_cq)                        \
  X(get_cq_event, ibv_get_cq_event)                    \
  X(ack_cq_events, ibv_ack_cq_events)                  \
  X(modify_qp, ibv_modify_qp)                          \
  X(reg_mr, ibv_reg_mr)                                \
  X(dereg_mr, ibv_dereg_mr)                            \
  X(query_device, ibv_query_device)                    \
  X(query_port, ibv_query_port)                        \
  X(query_gid, ibv_query_gid)                          \
  X(get_device_list, ibv_get_device_list)              \
  X(free_device_list, ibv_free_device_list)            \
  X(get_device_name, ibv_get_device_name)              \
  X(open_device, ibv_open_device)                      \
  X(close_device, ibv_close_device)

struct RdmaLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared cannot have any
#define COMEX_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  COMEX_RDMA_FUNCTIONS(COMEX_MEMBER)
#undef COMEX_MEMBER
};

// The same each time. Errc::unsupported, with what to install, if it is not there.
Expected<const RdmaLibrary*> rdma_library();

// What errno says of a failed call, with a hint at what usually is the reason: `what` begins the sentence.
Error rdma_error(const std::string& what);

}  // namespace comex
