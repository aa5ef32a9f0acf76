// Certificates for tests, made on the spot: an authority, and what it signs.
#pragma once

#include <memory>
#include <string>

#include "cli/test_folder.h"

namespace comex::test {

// A certificate and its key, as PEM files.
struct CertificateFiles {
  std::string certificate;
  std::string key;
};

class Authority {
 public:
  // Its own certificate is `name`.pem in `folder`.
  Authority(const TestFolder& folder, const std::string& name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  [[nodiscard]] const std::string& file() const { return file_; }
  // Signs a new certificate, good for `names` ("IP:127.0.0.1,DNS:localhost"). For both sides of a connection.
  [[nodiscard]] CertificateFiles sign(const std::string& name, const std::string& names) const;

 private:
  struct State;
  const TestFolder& folder_;
  std::string file_;
  std::unique_ptr<State> state_;
};

}  // namespace comex::test
