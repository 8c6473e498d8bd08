#include "agent_messages.h"

#include "payload.h"

namespace hgt {

NotSpawned not_spawned(std::uint32_t attempt, const Error& error) {
  return {attempt, error.exit_code(), error.message(), error.hint(), error.context()};
}

Error error_in(const NotSpawned& message) {
  if (message.error_kind < static_cast<int>(ErrorKind::kInternal) ||
      message.error_kind > static_cast<int>(ErrorKind::kPeer))
    refuse_payload();
  Error error(static_cast<ErrorKind>(message.error_kind), message.message, message.hint);
  for (const std::string& where : message.context) error.in(where);
  return error;
}

}  // namespace hgt
