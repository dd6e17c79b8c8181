export {
  checkEventFiles,
  checkEvents,
  eventsOptions,
  type ReceiverConfig,
  receiversOf,
} from './config.ts'
export {
  type EventStore,
  GIVE_UP_AFTER,
  type NewEvent,
  Outbox,
  type OutboxDeps,
  type WaitingEvent,
} from './outbox.ts'
export type { Sender } from './receiver.ts'
export { type EventHead, type EventText, tidy } from './text.ts'
