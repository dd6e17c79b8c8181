/** A text in each language, in the order of `LANGUAGES`. */
type Translation = readonly [en: string, de: string, fr: string, es: string]

export interface Translations {
  readonly [name: string]: Translation | Translations
}

/**
 * The texts of the pages in English, German, French and Spanish. What is in braces is filled in; every language
 * has the same braces.
 */
// biome-ignore format: one row for each text
export const TEXTS = {
  brand: ['Gatehouse', 'Gatehouse', 'Gatehouse', 'Gatehouse'],
  retry: ['Try again', 'Erneut versuchen', 'Réessayer', 'Volver a intentarlo'],
  wait: [
    'Try again in {wait}.', 'Versuchen Sie es in {wait} noch einmal.',
    'Réessayez dans {wait}.', 'Vuelva a intentarlo dentro de {wait}.'],
  requestId: ['Request', 'Anfrage', 'Requête', 'Solicitud'],
  details: ['Details:', 'Einzelheiten:', 'Détails :', 'Detalles:'],
  contact: ['Need help?', 'Brauchen Sie Hilfe?', 'Besoin d’aide ?', '¿Necesita ayuda?'],
  signIn: {
    title: ['Sign in', 'Anmelden', 'Connexion', 'Iniciar sesión'],
    text: ['Continue to {host}', 'Weiter zu {host}', 'Pour continuer vers {host}', 'Para continuar a {host}'],
    choices: ['Sign in with', 'Anmelden mit', 'Se connecter avec', 'Iniciar sesión con'],
    slow: ['Slow at the moment', 'Antwortet zurzeit langsam', 'Répond lentement en ce moment', 'Responde con lentitud ahora'],
    away: ['Not responding at the moment', 'Antwortet zurzeit nicht', 'Ne répond pas pour le moment', 'No responde en este momento'],
  },
  signedIn: {
    title: ['You are signed in', 'Sie sind angemeldet', 'Vous êtes connecté', 'Ha iniciado sesión'],
    back: ['Continue to {host}', 'Weiter zu {host}', 'Continuer vers {host}', 'Continuar a {host}'],
    account: ['Your account', 'Ihr Konto', 'Votre compte', 'Su cuenta'],
    apps: ['Your apps', 'Ihre Apps', 'Vos applications', 'Sus aplicaciones'],
    noApps: [
      'This account does not have access to any apps here yet. Ask the administrator of this site for access.',
      'Dieses Konto hat hier noch auf keine App Zugriff. Bitten Sie die Administration um Zugriff.',
      'Ce compte n’a encore accès à aucune application ici. Demandez l’accès à l’administrateur de ce site.',
      'Esta cuenta todavía no tiene acceso a ninguna aplicación aquí. Pida acceso al administrador de este sitio.'],
    findApp: ['Find an app', 'App suchen', 'Trouver une application', 'Buscar una aplicación'],
    noMatch: ['No app matches.', 'Keine App passt dazu.', 'Aucune application ne correspond.', 'Ninguna aplicación coincide.'],
    allApps: ['All {total} apps', 'Alle {total} Apps', 'Les {total} applications', 'Las {total} aplicaciones'],
    profile: ['Your profile', 'Ihr Profil', 'Votre profil', 'Su perfil'],
    profileText: [
      'This is what apps can learn about you here.', 'Das können Apps hier über Sie erfahren.',
      'Voici ce que les applications peuvent savoir de vous ici.', 'Esto es lo que las aplicaciones pueden saber de usted aquí.'],
    signOut: ['Sign out', 'Abmelden', 'Se déconnecter', 'Cerrar sesión'],
  },
  sessions: {
    title: ['Your sessions', 'Ihre Sitzungen', 'Vos sessions', 'Sus sesiones'],
    current: ['This browser', 'Dieser Browser', 'Ce navigateur', 'Este navegador'],
    device: ['{browser} on {system}', '{browser} unter {system}', '{browser} sous {system}', '{browser} en {system}'],
    unknown: ['Unknown device', 'Unbekanntes Gerät', 'Appareil inconnu', 'Dispositivo desconocido'],
    address: ['IP address', 'IP-Adresse', 'Adresse IP', 'Dirección IP'],
    begun: ['Signed in', 'Angemeldet', 'Connexion', 'Inicio'],
    lastSeen: ['Last active', 'Zuletzt aktiv', 'Dernière activité', 'Última actividad'],
    ends: ['Expires', 'Läuft ab', 'Expiration', 'Caducidad'],
    hosts: ['Used at', 'Verwendet bei', 'Utilisée sur', 'Usada en'],
    end: ['End session', 'Sitzung beenden', 'Fermer la session', 'Cerrar esta sesión'],
    endOthers: [
      'End all other sessions', 'Alle anderen Sitzungen beenden',
      'Fermer toutes les autres sessions', 'Cerrar todas las demás sesiones'],
    everywhere: ['Sign out everywhere', 'Überall abmelden', 'Se déconnecter partout', 'Cerrar sesión en todas partes'],
    onlyNewest: [
      'Only the newest {count} sessions are shown.', 'Es werden nur die {count} neuesten Sitzungen angezeigt.',
      'Seules les {count} sessions les plus récentes sont affichées.', 'Solo se muestran las {count} sesiones más recientes.'],
    everybody: ['Sessions of everybody', 'Sitzungen aller Personen', 'Sessions de tout le monde', 'Sesiones de todas las personas'],
    searchLabel: [
      'Whole e-mail address or identifier of a person', 'Vollständige E-Mail-Adresse oder Kennung einer Person',
      'Adresse e-mail complète ou identifiant d’une personne', 'Dirección de correo completa o identificador de una persona'],
    search: ['Search', 'Suchen', 'Rechercher', 'Buscar'],
    none: ['No sessions found.', 'Keine Sitzungen gefunden.', 'Aucune session trouvée.', 'No se ha encontrado ninguna sesión.'],
    endAll: [
      'End all sessions of this person', 'Alle Sitzungen dieser Person beenden',
      'Fermer toutes les sessions de cette personne', 'Cerrar todas las sesiones de esta persona'],
  },
  consent: {
    title: [
      'Let this app act for you?', 'Darf diese App für Sie handeln?',
      'Autoriser cette application à agir en votre nom ?', '¿Permitir que esta aplicación actúe en su nombre?'],
    app: ['Requested by', 'Angefragt von', 'Demandé par', 'Lo solicita'],
    selfRegistered: [
      'An app that registered itself. Nobody has confirmed who made it.',
      'Eine App, die sich selbst registriert hat. Niemand hat bestätigt, von wem sie stammt.',
      'Une application qui s’est enregistrée elle-même. Personne n’a confirmé qui l’a créée.',
      'Una aplicación que se ha registrado a sí misma. Nadie ha confirmado quién la ha creado.'],
    callsItself: ['Calls itself', 'Nennt sich', 'Dit s’appeler', 'Dice llamarse'],
    answer: ['Access goes to', 'Zugriff erhält', 'Accès donné à', 'El acceso se da a'],
    opens: [
      'The app on this device that opens {scheme} links',
      'Die App auf diesem Gerät, die Links mit {scheme} öffnet',
      'L’application de cet appareil qui ouvre les liens {scheme}',
      'La aplicación de este dispositivo que abre los enlaces {scheme}'],
    resource: ['Wants to use', 'Möchte verwenden', 'Souhaite utiliser', 'Quiere usar'],
    scopes: ['What it may do', 'Was sie tun darf', 'Ce qu’elle pourra faire', 'Qué podrá hacer'],
    loopback: [
      'Access goes to a program on this device, and any program on it could be asking. ' +
        'Allow this only if you have just started the app yourself.',
      'Den Zugriff erhält ein Programm auf diesem Gerät, und jedes Programm darauf könnte die Anfrage gestellt haben. ' +
        'Erlauben Sie ihn nur, wenn Sie die App gerade selbst gestartet haben.',
      'L’accès est donné à un programme de cet appareil, et n’importe quel programme qui s’y trouve peut être à l’origine de la ' +
        'demande. N’autorisez que si vous venez de lancer vous-même l’application.',
      'El acceso se da a un programa de este dispositivo, y podría solicitarlo cualquier programa que haya en él. ' +
        'Permítalo solo si usted acaba de abrir la aplicación.'],
    allow: ['Allow', 'Erlauben', 'Autoriser', 'Permitir'],
    deny: ['Deny', 'Ablehnen', 'Refuser', 'Denegar'],
  },
  agents: {
    title: ['Connected agents', 'Verbundene Agenten', 'Agents connectés', 'Agentes conectados'],
    selfRegistered: ['Registered itself', 'Hat sich selbst registriert', 'S’est enregistré lui-même', 'Se ha registrado por sí mismo'],
    resource: ['May use', 'Darf verwenden', 'Peut utiliser', 'Puede usar'],
    scopes: ['Permissions', 'Berechtigungen', 'Autorisations', 'Permisos'],
    begun: ['Connected', 'Verbunden', 'Connexion', 'Conexión'],
    lastCall: ['Last call', 'Letzter Aufruf', 'Dernier appel', 'Última llamada'],
    end: ['Disconnect', 'Verbindung trennen', 'Déconnecter', 'Desconectar'],
    onlyNewest: [
      'Only the newest {count} agents are shown.', 'Es werden nur die {count} neuesten Agenten angezeigt.',
      'Seuls les {count} agents les plus récents sont affichés.', 'Solo se muestran los {count} agentes más recientes.'],
  },
  calls: {
    title: ['Calls that wait for you', 'Wartende Aufrufe', 'Appels en attente', 'Llamadas en espera'],
    none: ['No call is waiting.', 'Kein Aufruf wartet.', 'Aucun appel n’est en attente.', 'No hay ninguna llamada en espera.'],
    count: ['Calls that wait for you: {count}', 'Wartende Aufrufe: {count}', 'Appels en attente : {count}', 'Llamadas en espera: {count}'],
    question: ['Allow this call?', 'Diesen Aufruf erlauben?', 'Autoriser cet appel ?', '¿Permitir esta llamada?'],
    tool: ['Tool', 'Werkzeug', 'Outil', 'Herramienta'],
    server: ['MCP server', 'MCP-Server', 'Serveur MCP', 'Servidor MCP'],
    principal: ['On behalf of', 'Im Namen von', 'Au nom de', 'En nombre de'],
    arguments: ['With the arguments', 'Mit den Argumenten', 'Avec les arguments', 'Con los argumentos'],
    begun: ['Since', 'Seit', 'Depuis', 'Desde'],
    until: ['Until', 'Bis', 'Jusqu’à', 'Hasta'],
    once: ['Allow once', 'Einmal erlauben', 'Autoriser une fois', 'Permitir una vez'],
    remember: [
      'Allow this tool for {minutes} minutes, with any arguments', 'Werkzeug {minutes} Minuten lang mit allen Argumenten erlauben',
      'Autoriser cet outil pendant {minutes} minutes, avec tous les arguments',
      'Permitir esta herramienta {minutes} minutos, con cualquier argumento'],
    end: ['Deny and disconnect', 'Ablehnen und Verbindung trennen', 'Refuser et déconnecter', 'Denegar y desconectar'],
    allowed: ['Call allowed', 'Aufruf erlaubt', 'Appel autorisé', 'Llamada permitida'],
    allowedText: [
      'The call goes on. If the app has stopped waiting, it may make the same call again, within two minutes.',
      'Der Aufruf geht weiter. Wartet die App nicht mehr, darf sie denselben Aufruf innerhalb von zwei Minuten wiederholen.',
      'L’appel se poursuit. Si l’application n’attend plus, elle peut le refaire à l’identique dans les deux minutes.',
      'La llamada continúa. Si la aplicación ya no espera, puede repetir la misma llamada en los próximos dos minutos.'],
    denied: ['Call denied', 'Aufruf abgelehnt', 'Appel refusé', 'Llamada denegada'],
    deniedText: [
      'The same call is refused for ten minutes.', 'Derselbe Aufruf wird zehn Minuten lang abgelehnt.',
      'Le même appel est refusé pendant dix minutes.', 'La misma llamada se rechaza durante diez minutos.'],
    ended: ['App disconnected', 'App getrennt', 'Application déconnectée', 'Aplicación desconectada'],
    endedText: [
      'The call was denied, too.', 'Auch der Aufruf wurde abgelehnt.',
      'L’appel a également été refusé.', 'También se ha denegado la llamada.'],
    expired: ['Call has expired', 'Aufruf abgelaufen', 'Appel expiré', 'Llamada caducada'],
    expiredText: [
      'Nobody answered in time. If the app makes the call again, there is a new question.',
      'Niemand hat rechtzeitig geantwortet. Wiederholt die App den Aufruf, wird neu gefragt.',
      'Personne n’a répondu à temps. Si l’application refait l’appel, la question sera posée de nouveau.',
      'Nadie ha respondido a tiempo. Si la aplicación repite la llamada, se preguntará de nuevo.'],
  },
  signOut: {
    title: ['Sign out?', 'Abmelden?', 'Se déconnecter ?', '¿Cerrar sesión?'],
    text: [
      'All apps that use this sign-in will ask you to sign in again.',
      'Danach müssen Sie sich bei allen Apps, die diese Anmeldung verwenden, neu anmelden.',
      'Il faudra vous reconnecter à toutes les applications qui utilisent cette connexion.',
      'Tendrá que volver a iniciar sesión en todas las aplicaciones que usan este acceso.'],
    confirm: ['Sign out', 'Abmelden', 'Se déconnecter', 'Cerrar sesión'],
    stay: ['Stay signed in', 'Angemeldet bleiben', 'Rester connecté', 'Seguir con la sesión abierta'],
  },
  signedOut: {
    title: ['You are signed out', 'Sie sind abgemeldet', 'Vous êtes déconnecté', 'Ha cerrado la sesión'],
    text: ['You can close this page.', 'Sie können diese Seite schließen.', 'Vous pouvez fermer cette page.', 'Puede cerrar esta página.'],
    notStored: [
      'Your session was removed from this browser, but the server could not record that it has ended. ' +
        'If someone has a copy of it, the copy may stay valid until {end}. Please tell the administrator of this site.',
      'Ihre Sitzung wurde aus diesem Browser entfernt, aber der Server konnte nicht speichern, dass sie beendet ist. ' +
        'Falls jemand sie kopiert hat, kann die Kopie bis {end} gültig bleiben. Bitte informieren Sie die Administration dieser Website.',
      'Votre session a été supprimée de ce navigateur, mais le serveur n’a pas pu enregistrer qu’elle est terminée. ' +
        'Si quelqu’un l’a copiée, la copie peut rester valable jusqu’au {end}. Merci de prévenir l’administrateur de ce site.',
      'Su sesión se ha eliminado de este navegador, pero el servidor no ha podido registrar que ha terminado. ' +
        'Si alguien la ha copiado, la copia puede seguir siendo válida hasta el {end}. Avise al administrador de este sitio.'],
    provider: [
      'Also sign out of {provider}', 'Auch bei {provider} abmelden',
      'Se déconnecter aussi de {provider}', 'Cerrar sesión también en {provider}'],
    signIn: ['Sign in again', 'Wieder anmelden', 'Se reconnecter', 'Volver a iniciar sesión'],
  },
  refused: {
    title: [
      'No access with this account', 'Kein Zugriff mit diesem Konto',
      'Accès impossible avec ce compte', 'Esta cuenta no tiene acceso'],
    text: [
      'This account may not open this page of {host}. If it should, ask the administrator of this site.',
      'Dieses Konto darf diese Seite von {host} nicht öffnen. Wenn Sie Zugriff brauchen, fragen Sie die Administration.',
      'Ce compte ne peut pas ouvrir cette page de {host}. Demandez l’accès à l’administrateur de ce site.',
      'Esta cuenta no puede abrir esta página de {host}. Pida acceso al administrador de este sitio.'],
    portalText: [
      'This account may not use {portal}. If it should, ask the administrator of this site.',
      'Dieses Konto darf {portal} nicht verwenden. Wenn Sie Zugriff brauchen, fragen Sie die Administration.',
      'Ce compte ne peut pas utiliser {portal}. Demandez l’accès à l’administrateur de ce site.',
      'Esta cuenta no puede usar {portal}. Pida acceso al administrador de este sitio.'],
    switchAccount: ['Sign in as someone else', 'Mit einem anderen Konto anmelden', 'Utiliser un autre compte', 'Usar otra cuenta'],
  },
  framed: {
    title: ['Sign in to see this', 'Melden Sie sich an, um dies zu sehen', 'Connectez-vous pour voir ceci', 'Inicie sesión para ver esto'],
    text: [
      'Signing in needs a window of its own. Then reload this page.',
      'Die Anmeldung braucht ein eigenes Fenster. Laden Sie danach diese Seite neu.',
      'La connexion demande sa propre fenêtre. Rechargez ensuite cette page.',
      'El inicio de sesión necesita una ventana propia. Después vuelva a cargar esta página.'],
  },
  unsent: {
    title: ['Nothing was sent yet', 'Es wurde noch nichts gesendet', 'Rien n’a encore été envoyé', 'Todavía no se ha enviado nada'],
    text: [
      'The app did not receive what you sent. You may have to sign in first.',
      'Die App hat nichts erhalten. Vielleicht müssen Sie sich zuerst anmelden.',
      'L’application n’a rien reçu. Vous devez peut-être d’abord vous connecter.',
      'La aplicación no ha recibido nada. Quizá deba iniciar sesión primero.'],
    reload: [
      'Reload this page, and your browser sends it again. If you see this page once more, sign in first. ' +
        'Or go back: what you typed should still be there.',
      'Laden Sie diese Seite neu, dann sendet Ihr Browser alles noch einmal. Erscheint diese Seite wieder, melden Sie sich zuerst an. ' +
        'Oder gehen Sie zurück: Ihre Eingaben sollten noch da sein.',
      'Rechargez cette page et votre navigateur renverra tout. Si cette page réapparaît, connectez-vous d’abord. ' +
        'Ou revenez en arrière : votre saisie devrait y être encore.',
      'Vuelva a cargar esta página y su navegador lo enviará de nuevo. Si vuelve a ver esta página, inicie sesión primero. ' +
        'O vuelva atrás: lo que escribió debería seguir ahí.'],
  },
  providerDown: {
    title: ['{provider} is not responding', '{provider} antwortet nicht', '{provider} ne répond pas', '{provider} no responde'],
    text: [
      'You cannot sign in there at the moment. There is nothing wrong with your account.',
      'Dort ist die Anmeldung zurzeit nicht möglich. Mit Ihrem Konto ist alles in Ordnung.',
      'La connexion y est impossible pour le moment. Votre compte n’est pas en cause.',
      'En este momento no se puede iniciar sesión allí. El problema no está en su cuenta.'],
    outage: [
      'It has not answered since {time}. Each try asks it again.', 'Keine Antwort seit {time}. Jeder Versuch fragt dort neu.',
      'Aucune réponse depuis le {time}. Chaque tentative l’interroge à nouveau.',
      'No responde desde el {time}. Cada intento vuelve a consultarlo.'],
    switchProvider: ['Sign in another way', 'Auf andere Weise anmelden', 'Se connecter autrement', 'Iniciar sesión de otra manera'],
  },
  /** Introduces what the identity provider said about an error, in its own words. */
  providerSays: [
    'The identity provider says:', 'Meldung des Anmeldedienstes:',
    'Le fournisseur d’identité indique :', 'El proveedor de identidad indica:'],
  /** The texts of errors by code: what happened, and what to do next. */
  errors: {
    FWA_BUSY: {
      title: [
        'Too many sign-ins at once', 'Zu viele Anmeldungen auf einmal',
        'Trop de connexions à la fois', 'Demasiados inicios de sesión a la vez'],
      text: [
        'More people are signing in right now than this site can serve.',
        'Gerade melden sich mehr Personen an, als diese Website bedienen kann.',
        'Plus de personnes se connectent en ce moment que ce site ne peut en servir.',
        'En este momento inician sesión más personas de las que este sitio puede atender.'],
      next: [
        'Wait a few seconds, then load this page again.', 'Warten Sie ein paar Sekunden, und laden Sie diese Seite dann neu.',
        'Attendez quelques secondes, puis rechargez cette page.', 'Espere unos segundos y vuelva a cargar esta página.'],
    },
    FWA_CALLBACK_FOREIGN: {
      title: [
        'Callback from another provider', 'Antwort von einem anderen Anmeldedienst',
        'Réponse d’un autre fournisseur', 'Respuesta de otro proveedor'],
      text: [
        'You returned from a different identity provider than the one you started with.',
        'Die Antwort kam von einem anderen Anmeldedienst als dem, bei dem Sie begonnen haben.',
        'La réponse vient d’un autre fournisseur d’identité que celui avec lequel vous avez commencé.',
        'La respuesta procede de un proveedor de identidad distinto de aquel con el que empezó.'],
      next: [
        'Sign in again from the start. If this happens again, tell the administrator of this site.',
        'Beginnen Sie die Anmeldung von vorn. Wenn das wieder passiert, informieren Sie die Administration.',
        'Reprenez la connexion depuis le début. Si le problème se reproduit, prévenez l’administrateur.',
        'Vuelva a iniciar sesión desde el principio. Si el problema se repite, avise al administrador.'],
    },
    FWA_CLIENT_INVALID: {
      title: ['Client is not acceptable', 'Client nicht zulässig', 'Client non accepté', 'Cliente no admitido'],
      text: [
        'The app that wants access describes itself in a way that this site does not accept.',
        'Die App, die Zugriff möchte, beschreibt sich auf eine Weise, die diese Website nicht akzeptiert.',
        'L’application qui demande l’accès se décrit d’une manière que ce site n’accepte pas.',
        'La aplicación que solicita acceso se describe de una forma que este sitio no admite.'],
      next: [
        'Tell the developer of the app. The details are below.',
        'Informieren Sie die Entwickler der App. Die Einzelheiten stehen unten.',
        'Prévenez les développeurs de l’application. Les détails figurent ci-dessous.',
        'Avise a los desarrolladores de la aplicación. Los detalles figuran abajo.'],
    },
    FWA_CLIENT_UNREACHABLE: {
      title: [
        'Client metadata document cannot be read', 'Beschreibung des Clients nicht lesbar',
        'Description du client illisible', 'No se puede leer la descripción del cliente'],
      text: [
        'This site cannot read the description of the app that wants access.',
        'Diese Website kann die Beschreibung der App, die Zugriff möchte, nicht abrufen.',
        'Ce site ne parvient pas à lire la description de l’application qui demande l’accès.',
        'Este sitio no puede leer la descripción de la aplicación que solicita acceso.'],
      next: [
        'Try again in a moment. If that does not help, tell the developer of the app.',
        'Versuchen Sie es gleich noch einmal. Wenn das nicht hilft, informieren Sie die Entwickler der App.',
        'Réessayez dans un instant. Si cela ne suffit pas, prévenez les développeurs de l’application.',
        'Vuelva a intentarlo en un momento. Si no funciona, avise a los desarrolladores de la aplicación.'],
    },
    FWA_COOKIES_BLOCKED: {
      title: [
        'Browser does not keep cookies', 'Browser speichert keine Cookies',
        'Cookies non conservés', 'El navegador no guarda cookies'],
      text: [
        'Your browser does not keep the cookies of this app.',
        'Ihr Browser speichert die Cookies dieser App nicht.',
        'Votre navigateur ne conserve pas les cookies de cette application.',
        'Su navegador no guarda las cookies de esta aplicación.'],
      next: [
        'Allow cookies for this site, or open the app in a tab of its own.',
        'Erlauben Sie Cookies für diese Website, oder öffnen Sie die App in einem eigenen Tab.',
        'Autorisez les cookies de ce site, ou ouvrez l’application dans un onglet à part.',
        'Permita las cookies de este sitio o abra la aplicación en una pestaña propia.'],
    },
    FWA_COOKIE_DUPLICATE: {
      title: [
        'Session cookie sent twice', 'Sitzungs-Cookie doppelt gesendet',
        'Cookie de session envoyé deux fois', 'Cookie de sesión enviada dos veces'],
      text: [
        'Another site has set a second session cookie. This site cannot tell which one is yours, so it accepts neither.',
        'Eine andere Website hat ein zweites Sitzungs-Cookie gesetzt. Deshalb wird keines der beiden akzeptiert.',
        'Un autre site a créé un second cookie de session : aucun des deux n’est donc accepté.',
        'Otro sitio ha creado una segunda cookie de sesión, por lo que no se acepta ninguna de las dos.'],
      next: [
        'Delete the cookies of this site in your browser, then try again.',
        'Löschen Sie die Cookies dieser Website im Browser, und versuchen Sie es noch einmal.',
        'Supprimez les cookies de ce site dans votre navigateur, puis réessayez.',
        'Borre las cookies de este sitio en su navegador y vuelva a intentarlo.'],
    },
    FWA_FORBIDDEN: {
      title: [
        'Access denied for this account', 'Kein Zugriff für dieses Konto',
        'Accès refusé à ce compte', 'Acceso denegado a esta cuenta'],
      text: [
        'This account does not have access to this page.', 'Dieses Konto hat keinen Zugriff auf diese Seite.',
        'Ce compte n’a pas accès à cette page.', 'Esta cuenta no tiene acceso a esta página.'],
      next: [
        'Sign in with another account, or ask the administrator of this site for access.',
        'Melden Sie sich mit einem anderen Konto an, oder bitten Sie die Administration um Zugriff.',
        'Utilisez un autre compte, ou demandez l’accès à l’administrateur de ce site.',
        'Use otra cuenta o pida acceso al administrador de este sitio.'],
    },
    FWA_LOGIN_REFUSED: {
      title: ['Provider refused the sign-in', 'Anmeldung abgelehnt', 'Connexion refusée', 'Inicio de sesión rechazado'],
      text: [
        'The identity provider did not sign you in.', 'Der Anmeldedienst hat Sie nicht angemeldet.',
        'Le fournisseur d’identité a refusé de vous connecter.', 'El proveedor de identidad ha rechazado su inicio de sesión.'],
      next: [
        'Try again, or sign in with another account.',
        'Versuchen Sie es noch einmal, oder melden Sie sich mit einem anderen Konto an.',
        'Réessayez, ou utilisez un autre compte.',
        'Vuelva a intentarlo o use otra cuenta.'],
    },
    FWA_LOGIN_UNKNOWN: {
      title: [
        'Sign-in expired or started in another browser', 'Anmeldung abgelaufen oder in einem anderen Browser begonnen',
        'Connexion expirée ou commencée dans un autre navigateur', 'Inicio de sesión caducado o iniciado en otro navegador'],
      text: [
        'The sign-in took too long, or began in another browser.',
        'Die Anmeldung hat zu lange gedauert oder wurde in einem anderen Browser begonnen.',
        'La connexion a pris trop de temps, ou a commencé dans un autre navigateur.',
        'El inicio de sesión ha tardado demasiado o comenzó en otro navegador.'],
      next: [
        'Try again, and allow cookies for this site.',
        'Versuchen Sie es noch einmal, und erlauben Sie Cookies für diese Website.',
        'Réessayez, et autorisez les cookies pour ce site.',
        'Vuelva a intentarlo y permita las cookies de este sitio.'],
    },
    FWA_OAUTH_INVALID: {
      title: [
        "This app's request is not valid", 'Anfrage dieser App ungültig',
        'La demande de cette application n’est pas valide', 'La solicitud de esta aplicación no es válida'],
      text: [
        'The app that sent you here made a mistake. Nothing was shared with it.',
        'Die App, von der Sie kommen, hat einen Fehler gemacht. Sie hat keine Daten erhalten.',
        'L’application qui vous a envoyé ici a commis une erreur. Rien ne lui a été transmis.',
        'La aplicación que le ha enviado aquí ha cometido un error. No ha recibido ningún dato.'],
      next: [
        'Go back to the app and try again. If this happens again, send the details below to its developer.',
        'Gehen Sie zurück zur App, und versuchen Sie es noch einmal. Wenn das wieder passiert, leiten Sie die Angaben unten an den ' +
          'Hersteller der App weiter.',
        'Revenez à l’application et réessayez. Si le problème se reproduit, transmettez les informations ci-dessous à son développeur.',
        'Vuelva a la aplicación e inténtelo de nuevo. Si se repite, envíe la información de abajo a su desarrollador.'],
    },
    FWA_ORIGIN_FOREIGN: {
      title: [
        'Request came from another origin', 'Anfrage von einer anderen Website',
        'Requête provenant d’un autre site', 'Solicitud de otro sitio'],
      text: [
        'Another site tried to end a session. Nothing was changed.',
        'Eine andere Website wollte eine Sitzung beenden. Es wurde nichts geändert.',
        'Un autre site a tenté de fermer une session. Rien n’a été modifié.',
        'Otro sitio ha intentado cerrar una sesión. No se ha cambiado nada.'],
      next: [
        'To end a session, use the pages of this site.',
        'Wenn Sie eine Sitzung beenden möchten, verwenden Sie die Seiten dieser Website.',
        'Pour fermer une session, utilisez les pages de ce site.',
        'Si quiere cerrar una sesión, use las páginas de este sitio.'],
    },
    FWA_PROVIDER_UNREACHABLE: {
      title: [
        'Provider cannot be reached', 'Anmeldedienst nicht erreichbar',
        'Fournisseur injoignable', 'No se puede contactar con el proveedor'],
      text: [
        'The identity provider is not responding.', 'Der Anmeldedienst antwortet nicht.',
        'Le fournisseur d’identité ne répond pas.', 'El proveedor de identidad no responde.'],
      next: [
        'Try again in a moment, or sign in another way.',
        'Versuchen Sie es gleich noch einmal, oder melden Sie sich auf andere Weise an.',
        'Réessayez dans un instant, ou connectez-vous autrement.',
        'Vuelva a intentarlo en un momento o inicie sesión de otra manera.'],
    },
    FWA_RATE_LIMITED: {
      title: ['Too many attempts', 'Zu viele Versuche', 'Trop de tentatives', 'Demasiados intentos'],
      text: [
        'This account has signed in, or allowed new apps, too often in a short time.',
        'Dieses Konto hat sich in kurzer Zeit zu oft angemeldet oder zu viele neue Apps erlaubt.',
        'Ce compte s’est connecté ou a autorisé de nouvelles applications trop souvent en peu de temps.',
        'Esta cuenta ha iniciado sesión o ha permitido aplicaciones nuevas demasiadas veces en poco tiempo.'],
      next: [
        'Wait a minute, then try again.', 'Warten Sie eine Minute, und versuchen Sie es dann noch einmal.',
        'Attendez une minute, puis réessayez.', 'Espere un minuto y vuelva a intentarlo.'],
    },
    FWA_SESSION_TOO_LARGE: {
      title: ['Session too large', 'Sitzung zu groß', 'Session trop volumineuse', 'Sesión demasiado grande'],
      text: [
        'The identity provider sent more information about you than fits in a cookie.',
        'Der Anmeldedienst sendet mehr Angaben über Sie, als in ein Cookie passen.',
        'Le fournisseur d’identité a envoyé plus d’informations sur vous qu’un cookie ne peut en contenir.',
        'El proveedor de identidad envía más datos sobre usted de los que caben en una cookie.'],
      next: [
        'Tell the administrator of this site that your account needs to be in fewer groups.',
        'Bitten Sie die Administration, Ihr Konto aus einigen Gruppen zu entfernen.',
        'Demandez à l’administrateur de retirer votre compte de certains groupes.',
        'Pida al administrador que quite su cuenta de algunos grupos.'],
    },
    FWA_SIGN_IN_LOOP: {
      title: ['Redirect loop', 'Endlose Weiterleitung', 'Boucle de redirection', 'Bucle de redirección'],
      text: [
        'You are signed in, but the app keeps sending you back to sign in.',
        'Sie sind angemeldet, aber die App schickt Sie immer wieder zur Anmeldung.',
        'Vous êtes connecté, mais l’application vous renvoie sans cesse à la page de connexion.',
        'Ha iniciado sesión, pero la aplicación le devuelve una y otra vez al inicio de sesión.'],
      next: [
        'Delete the cookies of this site, and check that your browser accepts cookies. If that does not help, tell the administrator.',
        'Löschen Sie die Cookies dieser Website, und erlauben Sie Cookies. Wenn das nicht hilft, informieren Sie die Administration.',
        'Supprimez les cookies de ce site et autorisez les cookies. Si le problème persiste, prévenez l’administrateur.',
        'Borre las cookies de este sitio y permita las cookies. Si el problema continúa, avise al administrador.'],
    },
    FWA_SIGN_IN_POLICY: {
      title: [
        'Sign-in link names an unknown policy', 'Link zur Anmeldung ungültig',
        'Lien de connexion non valide', 'Enlace de inicio de sesión no válido'],
      text: [
        'The link that brought you here is no longer valid.',
        'Der Link, über den Sie hierhergekommen sind, ist nicht mehr gültig.',
        'Le lien que vous avez suivi n’est plus valide.',
        'El enlace que ha seguido ya no es válido.'],
      next: [
        'Open the app again to get a new link.',
        'Öffnen Sie die App noch einmal, um einen neuen Link zu erhalten.',
        'Ouvrez de nouveau l’application pour obtenir un nouveau lien.',
        'Vuelva a abrir la aplicación para obtener un enlace nuevo.'],
    },
    FWA_STEP_UP_UNMET: {
      title: [
        'Sign-in does not meet the requirements', 'Anmeldung reicht nicht aus',
        'Connexion insuffisante', 'El inicio de sesión no es suficiente'],
      text: [
        'This page requires another kind of sign-in, such as one with a second factor.',
        'Diese Seite erfordert eine andere Anmeldung, zum Beispiel mit einem zweiten Faktor.',
        'Cette page exige une autre méthode de connexion, par exemple avec un second facteur.',
        'Esta página exige otra forma de iniciar sesión, por ejemplo con un segundo factor.'],
      next: [
        'Try again with the method that you are asked for. If that does not help, tell the administrator.',
        'Versuchen Sie es noch einmal mit der verlangten Methode. Wenn das nicht hilft, informieren Sie die Administration.',
        'Réessayez avec la méthode demandée. Si le problème persiste, prévenez l’administrateur.',
        'Vuelva a intentarlo con el método que se le pide. Si el problema continúa, avise al administrador.'],
    },
    STORE_UNAVAILABLE: {
      title: [
        'Store is unavailable', 'Speicher ist nicht erreichbar',
        'Stockage indisponible', 'El almacenamiento no está disponible'],
      text: [
        'This site cannot check who is signed in at the moment.',
        'Diese Website kann zurzeit nicht prüfen, wer angemeldet ist.',
        'Pour le moment, ce site ne peut pas vérifier qui est connecté.',
        'En este momento, este sitio no puede comprobar quién ha iniciado sesión.'],
      next: [
        'Try again in a few minutes.', 'Versuchen Sie es in ein paar Minuten noch einmal.',
        'Réessayez dans quelques minutes.', 'Vuelva a intentarlo en unos minutos.'],
    },
    NOT_FOUND: {
      title: ['Not found', 'Nicht gefunden', 'Page introuvable', 'Página no encontrada'],
      text: [
        'There is nothing at this address.', 'Unter dieser Adresse wurde nichts gefunden.',
        'Il n’y a rien à cette adresse.', 'No hay nada en esta dirección.'],
      next: [
        'Check the address, or open the app again.', 'Prüfen Sie die Adresse, oder öffnen Sie die App noch einmal.',
        'Vérifiez l’adresse, ou ouvrez de nouveau l’application.', 'Compruebe la dirección o vuelva a abrir la aplicación.'],
    },
    /** A fault in the configuration of this site, of its proxy or at its provider. */
    SETUP: {
      title: [
        'This site is not set up correctly', 'Diese Website ist nicht richtig eingerichtet',
        'Ce site n’est pas correctement configuré', 'Este sitio no está bien configurado'],
      text: [
        'You did nothing wrong. The configuration of this site has to be corrected.',
        'Sie haben nichts falsch gemacht. Die Konfiguration dieser Website muss korrigiert werden.',
        'Vous n’y êtes pour rien : la configuration de ce site doit être corrigée.',
        'Usted no ha hecho nada mal: hay que corregir la configuración de este sitio.'],
      next: [
        'Send the details below to its administrator.', 'Leiten Sie die Angaben unten an die Administration weiter.',
        'Transmettez les informations ci-dessous à son administrateur.', 'Envíe la información de abajo a su administrador.'],
    },
    INTERNAL: {
      title: ['Something went wrong', 'Etwas ist schiefgegangen', 'Une erreur est survenue', 'Algo ha salido mal'],
      text: [
        'An error occurred on this site. It has been logged.',
        'Auf dieser Website ist ein Fehler aufgetreten. Er wurde protokolliert.',
        'Une erreur s’est produite sur ce site et a été enregistrée.',
        'Se ha producido un error en este sitio y ha quedado registrado.'],
      next: [
        'Try again. If it happens again, send the details below to the administrator.',
        'Versuchen Sie es noch einmal. Wenn das wieder passiert, leiten Sie die Angaben unten an die Administration weiter.',
        'Réessayez. Si elle se reproduit, transmettez les informations ci-dessous à l’administrateur.',
        'Vuelva a intentarlo. Si se repite, envíe la información de abajo al administrador.'],
    },
    REQUEST: {
      title: ['Request not understood', 'Anfrage nicht verstanden', 'Requête non comprise', 'No se ha entendido la solicitud'],
      text: [
        'This site did not understand the request from your browser.',
        'Diese Website konnte die Anfrage Ihres Browsers nicht verarbeiten.',
        'Ce site n’a pas compris la requête de votre navigateur.',
        'Este sitio no ha entendido la solicitud de su navegador.'],
      next: [
        'Go back and try again, or open the app again.',
        'Gehen Sie zurück und versuchen Sie es noch einmal, oder öffnen Sie die App neu.',
        'Revenez en arrière et réessayez, ou ouvrez de nouveau l’application.',
        'Vuelva atrás e inténtelo de nuevo, o abra otra vez la aplicación.'],
    },
  },
} satisfies Translations
