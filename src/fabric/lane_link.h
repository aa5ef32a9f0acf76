// What the links have in common whose pages travel on lanes (lane_set.h) beside the control connection: TcpLink and
// RdmaLink. `Base` is what they are besides: ChannelLink, or SlabLink.
//
// The last of the line severs the link in its destructor: lanes may use what it has.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/thread_number.h"
#include "fabric/channel_link.h"
#include "fabric/lane_set.h"

namespace comex {

template <typename Base>
class LaneLink : public Base {
 public:
  void submit(Transfer& transfer) noexcept override {
    lanes_.submit(transfer, thread_number());
    hang_up_if_broken();
  }
  void progress() noexcept final {
    lanes_.progress();
    hang_up_if_broken();
  }
  Errc wait(Transfer& transfer) noexcept final {
    const Errc result = lanes_.wait(transfer);
    hang_up_if_broken();
    return result;
  }
  [[nodiscard]] Errc broken() const noexcept final { return lanes_.broken(); }
  void sever(Errc why) noexcept final {
    lanes_.sever(why);
    this->shut_channel();
  }

 protected:
  LaneLink(Opened opened, const LinkOptions& options)
      : Base(std::move(opened), options), lanes_(options.transfer_timeout) {}

  // As many as the options say; none for an observer. make(Opened) turns a connection that has been proved into a lane:
  // an Expected<std::unique_ptr<Lane>>.
  template <typename Make>
  Expected<void> add_lanes(const Url& url, const LinkOptions& options, const std::shared_ptr<RdmaDomain>& domain,
                           Make&& make) {
    const unsigned lanes = options.observe ? 0 : std::clamp(options.lanes, 1U, LaneSet::kMost);
    for (unsigned i = 0; i < lanes; ++i) {
      auto opened = open_channel(url, options, wire::Purpose::lane, &this->session_, domain);
      if (!opened) return std::move(opened).error();
      Expected<std::unique_ptr<Lane>> lane = make(opened->channel->release());
      if (!lane) return std::move(lane).error();
      lanes_.add(**lane);
      owned_.push_back(*std::move(lane));
    }
    return {};
  }
  [[nodiscard]] std::atomic<Errc>& broken_word() noexcept { return lanes_.broken_word(); }

 private:
  // Lanes that failed take the control connection with them: whoever waits there hears of it at once.
  void hang_up_if_broken() noexcept {
    if (broken() != Errc::ok) this->shut_channel();
  }

  std::vector<std::unique_ptr<Lane>> owned_;
  LaneSet lanes_;
};

}  // namespace comex
