// A small arena, its ledger, and a client that tests of one part of a node can act for.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "node/arena.h"
#include "node/ledger.h"
#include "wire/auth.h"

namespace comex {

class ClientFixture : public testing::Test {
 protected:
  std::shared_ptr<Client> admit() { return *ledger_.admit(ledger_.next_id(), wire::SessionKey{}, Arrival{}); }

 private:
  static std::unique_ptr<Arena> make_arena() {
    auto arena = Arena::create({.bytes = 2 << 20, .lock = false, .huge_pages = false});
    if (!arena) throw std::runtime_error(arena.error().message);
    return *std::move(arena);
  }

 protected:
  const std::unique_ptr<Arena> arena_ = make_arena();
  Ledger ledger_{*arena_, LedgerConfig{}};
  const std::shared_ptr<Client> client_ = admit();
};

}  // namespace comex
