// The way in to the link of one session. Any number of threads, faulting ones among them, use the link; one thread
// (the node's keeper) puts it there and takes it away. No lock is held while a thread is inside, and none is taken to
// get in.
//
// Thread safety: enter() from any thread; open(), close() and link() from the one owner.
// Fault path: enter() and Pass. Two atomic increments on a word that threads mostly do not share.
//
// Why a link is never destroyed under a thread, and no transfer is lost. enter() counts itself in, then looks at link_;
// close() clears link_, then looks at the counts; all four are sequentially consistent, so either close() sees the
// thread and waits for it, or the thread sees no link and turns back. Threads that come after close() began do not even
// count themselves in, so the counts only fall: close() is not starved.
//   close() severs the link before it waits. Whoever is inside then returns at once (Link, invariant 3), and every
// transfer that was submitted, waited for or not, is complete after the progress() that follows the last thread's
// leaving: nobody can submit another. Only then is the link destroyed, and only then can open() bring the next.
//   So a thread that finds, after enter(), a link other than the one it submitted to also finds its transfer done.
//
// Potential weakness: a thread that is stopped while inside (a debugger, SIGSTOP to one thread) holds up close(), and
// with it the reconnection to this one node, until it runs again. Its link may not be destroyed earlier.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "fabric/link.h"
#include "pool/location.h"
#include "pool/turnstile.h"

namespace comex {

class LinkGate {
 public:
  // While it lives, the link does. Keep it no longer than one call.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : link_(std::exchange(other.link_, nullptr)), stripe_(other.stripe_) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (link_ != nullptr) Turnstile::leave(*stripe_);
    }
    [[nodiscard]] explicit operator bool() const noexcept { return link_ != nullptr; }
    Link* operator->() const noexcept { return link_; }
    Link& operator*() const noexcept { return *link_; }

   private:
    friend class LinkGate;
    Pass(Link* link, Turnstile::Stripe* stripe) : link_(link), stripe_(stripe) {}
    Link* link_ = nullptr;
    Turnstile::Stripe* stripe_ = nullptr;
  };

  LinkGate() = default;
  ~LinkGate() { close(Errc::disconnected); }
  LinkGate(const LinkGate&) = delete;
  LinkGate& operator=(const LinkGate&) = delete;

  // Empty if the gate is closed, or open for another session.
  [[nodiscard]] Pass enter(NodeId session) noexcept;

  // REQUIRES: closed.
  void open(NodeId session, std::unique_ptr<Link> link) noexcept;
  // Completes everything outstanding with `why`, waits for those inside to leave, destroys the link. Does nothing when
  // closed already.
  void close(Errc why) noexcept;
  // The owner's own way: it cannot be closed under itself. Null when closed.
  [[nodiscard]] Link* link() const noexcept { return owned_.get(); }

 private:
  std::atomic<Link*> link_{nullptr};
  std::atomic<std::uint16_t> session_{kNowhere.value};  // changes only while link_ is null and nobody is inside
  Turnstile inside_;
  std::unique_ptr<Link> owned_;
};

}  // namespace comex
