import { gitlab } from './gitlab.ts'
import { google } from './google.ts'
import { microsoftEntraID } from './microsoft-entra-id.ts'
import { openIDConnect } from './open-id-connect.ts'
import { pocketID } from './pocket-id.ts'

export type { Icon, Preset } from './preset.ts'

/** All presets, in the order of the reference. */
export const PRESETS = [openIDConnect, google, microsoftEntraID, gitlab, pocketID] as const
