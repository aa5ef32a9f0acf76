#include "cli/backup_plan.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/units.h"
#include "pool/batch.h"
#include "run/backup/backup_file.h"

namespace comex {

Expected<BackupConfig> plan_backup(const RunSettings& settings) {
  BackupConfig backup;
  if (settings.backup.empty()) {
    if (!settings.backup_size) return backup;
    return Error{Errc::invalid, "--backup-size is for --backup; say --backup DIR, too"};
  }
  std::error_code ignored;
  backup.folder = std::filesystem::absolute(settings.backup, ignored).string();  // the keeper is elsewhere
  if (const auto file = BackupFile::make(backup.folder); !file) return file.error();
  const auto usual = usual_backup_size(backup.folder);
  if (!usual) return usual.error();
  backup.bytes = settings.backup_size.value_or(*usual);
  if (backup.bytes >= kBatchBytes) return backup;
  return Error{Errc::invalid, fmt::format("--backup {}: {} are not enough for anything; name a disk with more room, or "
                                          "a larger --backup-size",
                                          backup.folder, format_size(backup.bytes))};
}

}  // namespace comex
