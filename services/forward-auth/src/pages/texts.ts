export const texts = {
  brand: 'Gatehouse',
  retry: 'Try again',
  requestId: 'Request',
  signIn: {
    title: 'Sign in',
    text: (host: string) => `Continue to ${host}`,
    choices: 'Sign in with',
    failing: 'Not responding at the moment',
  },
  signedIn: {
    title: 'You are signed in',
    back: (host: string) => `Continue to ${host}`,
    apps: 'Your apps',
    noApps: 'There is no app here yet that this account may open.',
    profile: 'Show my profile',
    signOut: 'Sign out',
  },
  signOut: {
    title: 'Sign out?',
    text: 'All apps that use this sign-in will ask you to sign in again.',
    confirm: 'Sign out',
    stay: 'Stay signed in',
  },
  signedOut: {
    title: 'You are signed out',
    text: 'You can close this page.',
    notStored: (end: string) =>
      `Your session was removed from this browser, but the server could not record that it has ended. If somebody has copied it, the copy may stay valid until ${end}. Please tell the administrator of this site.`,
    provider: (provider: string) => `Also sign out of ${provider}`,
    signIn: 'Sign in again',
  },
  refused: {
    title: 'No access with this account',
    text: 'You are signed in, but this account does not have access to this page. If it should, ask the administrator of this site.',
    other: 'Sign in as someone else',
  },
  providerDown: {
    title: (provider: string) => `${provider} is not responding`,
    text: 'Signing in there is not possible at the moment. There is nothing wrong with your account.',
    other: 'Sign in another way',
  },
} as const
