// What --backup asks for: a folder that can have a file of pages, and how long that may become.
#pragma once

#include "base/expected.h"
#include "cli/config.h"
#include "run/backup/backup.h"

namespace comex {

// Errc::invalid, with what to change, if it cannot be done.
Expected<BackupConfig> plan_backup(const RunSettings& settings);

}  // namespace comex
