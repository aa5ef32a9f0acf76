#include "support/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <cstdio>
#include <stdexcept>

#include <openssl/x509v3.h>

namespace comex::test {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using File = std::unique_ptr<std::FILE, Free>;

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free> extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "cannot extend a certificate");
}

// Unsigned, and without a subject's public key.
Certificate draft(const std::string& name) {
  Certificate certificate(X509_new());
  require(certificate != nullptr, "cannot make a certificate");
  std::uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_set_version(certificate.get(), X509_VERSION_3);
  // A day back: clocks of containers may differ by a little.
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -86'400);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 86'400);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

void write_certificate(const std::string& path, X509* certificate) {
  const File file(std::fopen(path.c_str(), "w"));
  require(file && PEM_write_X509(file.get(), certificate) == 1, "cannot write a certificate");
}

}  // namespace

struct Authority::State {
  Key key;
  Certificate certificate;
};

Authority::Authority(const TestFolder& folder, const std::string& name)
    : folder_(folder), file_(folder.path(name + ".pem")), state_(std::make_unique<State>()) {
  state_->key = Key(EVP_EC_gen("P-256"));
  require(state_->key != nullptr, "cannot make a key");
  state_->certificate = draft(name);
  X509* const self = state_->certificate.get();
  X509_set_issuer_name(self, X509_get_subject_name(self));
  X509_set_pubkey(self, state_->key.get());
  extend(self, self, NID_basic_constraints, "critical,CA:TRUE");
  extend(self, self, NID_key_usage, "critical,keyCertSign,cRLSign");
  require(X509_sign(self, state_->key.get(), EVP_sha256()) > 0, "cannot sign a certificate");
  write_certificate(file_, self);
}

Authority::~Authority() = default;

CertificateFiles Authority::sign(const std::string& name, const std::string& names) const {
  const Key key(EVP_EC_gen("P-256"));
  require(key != nullptr, "cannot make a key");
  const Certificate certificate = draft(name);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(state_->certificate.get()));
  X509_set_pubkey(certificate.get(), key.get());
  if (!names.empty()) extend(certificate.get(), state_->certificate.get(), NID_subject_alt_name, names);
  extend(certificate.get(), state_->certificate.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  require(X509_sign(certificate.get(), state_->key.get(), EVP_sha256()) > 0, "cannot sign a certificate");

  CertificateFiles files{folder_.path(name + ".pem"), folder_.path(name + ".key")};
  write_certificate(files.certificate, certificate.get());
  const File file(std::fopen(files.key.c_str(), "w"));
  require(file && PEM_write_PrivateKey(file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
          "cannot write a key");
  return files;
}

}  // namespace comex::test
