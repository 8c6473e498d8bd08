#pragma once

#include <string>
#include <string_view>

namespace hgt {

/// hgtrain's counterpart of an option of HF's Trainer, PEFT or another training program.
struct ForeignKey {
  std::string_view name;
  std::string_view key;   ///< hgtrain's key for it ("optimizer.params.lr"), "" if there is none
  std::string_view hint;  ///< what to do, if the key alone does not say it
};

/// The entry of an option that would change the training ("learning_rate"), nullptr if there is
/// none. Hyphens count as underscores.
const ForeignKey* find_foreign_key(std::string_view name);

/// The same for a size of the model under a name that HF's config.json does not use ("layers").
const ForeignKey* find_foreign_size(std::string_view name);

}  // namespace hgt
